//! What a save replaces, and what it leaves alone.

use super::*;

#[test]
fn what_another_process_left_is_in_nobodys_way() {
    let folder = Folder::new("left");
    let own = format!(".{}-0.tmp", std::process::id());
    let others = [own.as_str(), ".kiln-1.tmp", "notes.tmp"];
    others.iter().for_each(|name| drop(folder.put(name, "another's")));
    folder.put(".kiln-0123456789abcdef.tmp", "of a save that was killed");
    for number in 0..3 {
        state(number).save(folder.file("m.safetensors")).unwrap();
        assert_eq!(value(&StateDict::open(folder.file("m.safetensors")).unwrap()), number);
    }
    let mut names = others.map(String::from).to_vec();
    names.push("m.safetensors".into());
    names.sort();
    assert_eq!(folder.names(), names);
}

#[test]
fn what_is_saved_over_while_it_is_read_stays_readable() {
    let folder = Folder::new("over");
    let path = folder.file("m.safetensors");
    state(1).save(&path).unwrap();
    let opened = StateDict::open(&path).unwrap();
    state(2).save(&path).unwrap();
    assert_eq!(value(&opened), 1);
    // A state can be saved over the file it is read from.
    opened.save(&path).unwrap();
    assert_eq!(value(&StateDict::open(&path).unwrap()), 1);
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }
    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn permissions_stay() {
        let folder = Folder::new("mode");
        let path = folder.file("m.safetensors");
        state(1).save(&path).unwrap();
        let usual = mode(&folder.put("usual", ""));
        assert_eq!(mode(&path), usual);
        for private in [0o600, 0o640, 0o666, 0o400] {
            set_mode(&path, private);
            state(2).save(&path).unwrap();
            assert_eq!(mode(&path), private);
        }
        state(1).save_sharded(&path, 24).unwrap();
        let parts = || {
            folder.names().into_iter().filter(|name| name.starts_with("m-")).map(|name| folder.file(&name))
        };
        assert!(parts().all(|part| mode(&part) == usual));
        parts().for_each(|part| set_mode(&part, 0o600));
        set_mode(&folder.file("m.safetensors.index.json"), 0o640);
        state(2).save_sharded(&path, 24).unwrap();
        assert!(parts().count() == 2 && parts().all(|part| mode(&part) == 0o600));
        assert_eq!(mode(&folder.file("m.safetensors.index.json")), 0o640);
    }

    #[test]
    fn symbolic_links_are_followed() {
        let folder = Folder::new("links");
        fs::create_dir(folder.file("real")).unwrap();
        let (real, link) = (folder.file("real/m.safetensors"), folder.file("m.safetensors"));
        symlink("second", &link).unwrap();
        symlink("real/m.safetensors", folder.file("second")).unwrap();
        // First the link leads nowhere, then to a file.
        for number in [1, 2] {
            state(number).save(&link).unwrap();
            assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
            assert!(!fs::symlink_metadata(&real).unwrap().is_symlink());
            assert_eq!(value(&StateDict::open(&real).unwrap()), number);
        }
        symlink("real/index", folder.file("m.safetensors.index.json")).unwrap();
        for number in [3, 4] {
            state(number).save_sharded(&link, 24).unwrap();
            let opened = StateDict::open(folder.file("m.safetensors.index.json")).unwrap();
            assert_eq!(value(&opened), number);
            assert!(folder.file("real/index").is_file());
        }
        assert_eq!(folder.names().len(), 6, "{:?}", folder.names());
        assert_eq!(fs::read_dir(folder.file("real")).unwrap().count(), 2);
        symlink("loop", folder.file("loop")).unwrap();
        assert!(matches!(state(1).save(folder.file("loop")), Err(Error::File { .. })));
    }

    #[test]
    fn what_is_not_a_file_is_refused() {
        let folder = Folder::new("kinds");
        fs::create_dir(folder.file("folder")).unwrap();
        assert!(Command::new("mkfifo").arg(folder.file("pipe")).status().unwrap().success());
        symlink("pipe", folder.file("m.safetensors.index.json")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(folder.file("socket")).unwrap();
        let before = folder.names();
        let devices =
            [("/dev/null", "a device"), ("/dev/full", "a device")].map(|(p, k)| (PathBuf::from(p), k));
        let own = [
            ("folder", "a folder"),
            ("pipe", "a pipe"),
            ("socket", "a socket"),
            ("m.safetensors.index.json", "a pipe"),
        ];
        for (path, kind) in own.map(|(name, kind)| (folder.file(name), kind)).into_iter().chain(devices) {
            let expected = format!("expected a regular file, found {kind}");
            let (saved, line) = (state(1).save(&path), line!());
            let Err(Error::File { message, span, .. }) = saved else { panic!("{path:?}: {saved:?}") };
            assert_eq!((message, span.file(), span.line()), (expected.clone(), file!(), line));
            refused(&path, &expected);
        }
        // The index would be a pipe.
        let error = state(1).save_sharded(folder.file("m.safetensors"), 24).unwrap_err();
        assert!(error.to_string().contains("found a pipe"), "{error}");
        assert_eq!(folder.names(), before);
    }
}
