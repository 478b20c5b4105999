//! A state in several files is all old or all new.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const INDEX: &str = "m.safetensors.index.json";

/// The shards in a folder.
fn shards(folder: &Folder) -> Vec<String> {
    folder.names().into_iter().filter(|name| name.starts_with("m-")).collect()
}

#[test]
fn the_files_of_the_old_state_go_when_the_new_one_is_there() {
    let folder = Folder::new("generations");
    let path = folder.file("m.safetensors");
    state(1).save_sharded(&path, 24).unwrap();
    let old = shards(&folder);
    assert_eq!(old.len(), 2);
    let opened = StateDict::open(folder.file(INDEX)).unwrap();
    state(2).save_sharded(&path, 1000).unwrap();
    let new = shards(&folder);
    assert!(new.len() == 1 && !old.contains(&new[0]), "{old:?} {new:?}");
    assert_eq!(value(&StateDict::open(folder.file(INDEX)).unwrap()), 2);
    assert_eq!(value(&opened), 1, "what is open stays readable");
}

#[test]
fn a_save_that_fails_leaves_the_old_state_and_nothing_else() {
    let folder = Folder::new("failed");
    let path = folder.file("m.safetensors");
    state(1).save_sharded(&path, 24).unwrap();
    let before = folder.names();
    // Without data, and two views of one byte that a file has no room for.
    let byte = Tensor::ones([1], DType::U8);
    byte.realize().unwrap();
    let large = byte.expand([1i64 << 62]);
    for views in [
        [Tensor::ones([1 << 30, 1 << 30], Device::meta()), Tensor::ones([3], ())],
        [large.clone(), large.clone()],
        [large, Tensor::ones([3], ())],
    ] {
        let mut broken = state(2);
        views.iter().zip(["y", "z"]).for_each(|(view, name)| broken.insert(name, view).unwrap());
        for error in [broken.save_sharded(&path, 24).unwrap_err(), broken.save(&path).unwrap_err()] {
            assert!(
                error.to_string().contains(file!()) || matches!(error, Error::OutOfMemory { .. }),
                "{error}"
            );
        }
    }
    let mut long = state(2);
    long.metadata_mut().insert("text".into(), "x".repeat(100_000_001));
    let (saved, line) = (long.save_sharded(&path, 24), line!());
    let Err(Error::File { message, span, .. }) = saved else { panic!("{saved:?}") };
    assert!(message.contains("a header of at most 100000000 bytes") && span.line() == line, "{message}");
    assert_eq!(folder.names(), before);
    assert_eq!(value(&StateDict::open(folder.file(INDEX)).unwrap()), 1);
}

#[test]
fn what_killed_saves_left_goes_and_what_others_have_stays() {
    let folder = Folder::new("remains");
    let path = folder.file("m.safetensors");
    let others = [
        "m-ema-00001-of-00002.safetensors",
        "m-ema-0123456789abcdef-00001-of-00002.safetensors",
        "m-00001-of-00009.safetensors",
        "m.safetensors",
        "n-0123456789abcdef-00001-of-00002.safetensors",
    ];
    others.iter().for_each(|name| drop(folder.put(name, "another's")));
    // Of a save that was killed before its index, and of another library.
    let killed = ["m-0123456789abcdef-00001-of-00002.safetensors", ".kiln-0123456789abcdef.tmp"];
    killed.iter().for_each(|name| drop(folder.put(name, "half")));
    for (name, key) in [("m-00001-of-00002.safetensors", "a"), ("m-00002-of-00002.safetensors", "b")] {
        let mut part = StateDict::new();
        part.insert(key, &Tensor::full([3], 1, ())).unwrap();
        part.save(folder.file(name)).unwrap();
    }
    let map = r#"{"a": "m-00001-of-00002.safetensors", "b": "m-00002-of-00002.safetensors"}"#;
    folder.put(INDEX, format!(r#"{{"metadata": {{"total_size": 48}}, "weight_map": {map}}}"#));
    assert_eq!(value(&StateDict::open(folder.file(INDEX)).unwrap()), 1);
    state(2).save_sharded(&path, 1000).unwrap();
    assert_eq!(value(&StateDict::open(folder.file(INDEX)).unwrap()), 2);
    let new = shards(&folder).into_iter().filter(|name| !others.contains(&name.as_str())).collect::<Vec<_>>();
    assert_eq!(new.len(), 1, "{new:?}");
    let mut names: Vec<String> = others.map(String::from).to_vec();
    names.extend([INDEX.to_string(), new[0].clone()]);
    names.sort();
    assert_eq!(folder.names(), names);
}

#[test]
fn saves_and_readers_at_once_see_whole_states() {
    let folder = Folder::new("at-once");
    let (path, index) = (folder.file("m.safetensors"), folder.file(INDEX));
    state(0).save_sharded(&path, 24).unwrap();
    let done = AtomicBool::new(false);
    let save = |thread: i64| {
        for round in 0..25 {
            state(thread * 100 + round).save_sharded(&path, if round % 2 == 0 { 24 } else { 1000 }).unwrap();
        }
    };
    let read = || {
        while !done.load(Ordering::Relaxed) {
            value(&StateDict::open(&index).unwrap());
        }
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        let savers = [1, 2, 3].map(|thread| scope.spawn(move || save(thread)));
        let saved = savers.map(|saver| saver.join());
        done.store(true, Ordering::Relaxed);
        saved.into_iter().for_each(|saver| saver.unwrap());
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    // The last one may have taken place while others were under way.
    state(7).save_sharded(&path, 24).unwrap();
    assert_eq!((value(&StateDict::open(&index).unwrap()), folder.names().len()), (7, 3));
}
