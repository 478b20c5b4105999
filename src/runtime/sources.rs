//! Generated sources in a folder where a person may edit them (`KILN_SOURCES`).
//!
//! Each text is written to a file of its own, named by its kernel and by a checksum of what
//! was generated. A file that is there already and says something else has been edited: then
//! it is compiled in place of the generated text.

use std::borrow::Cow;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use crate::base::config::config;

/// The text to compile for a generated one; borrowed where nobody has edited it.
pub fn edited<'t>(kernel: &str, generated: &'t str, extension: &str) -> Cow<'t, str> {
    match &config().sources {
        Some(folder) => edited_in(folder, kernel, generated, extension),
        None => Cow::Borrowed(generated),
    }
}

fn edited_in<'t>(folder: &Path, kernel: &str, generated: &'t str, extension: &str) -> Cow<'t, str> {
    let path = path(folder, kernel, generated, extension);
    match fs::read_to_string(&path) {
        Ok(text) if text == generated => Cow::Borrowed(generated),
        Ok(text) => {
            eprintln!("kiln: {} was edited, and runs in place of what was generated", path.display());
            Cow::Owned(text)
        }
        Err(_) => {
            let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, generated));
            if let Err(error) = written {
                eprintln!("kiln: KILN_SOURCES: {}: {error}", path.display());
            }
            Cow::Borrowed(generated)
        }
    }
}

fn path(folder: &Path, kernel: &str, generated: &str, extension: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    generated.hash(&mut hasher);
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = kernel.chars().map(plain).take(60).collect();
    folder.join(format!("{name}-{:016x}.{extension}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edited_file_stands_in_for_what_was_generated() {
        let folder = std::env::temp_dir().join(format!("kiln-sources-{}", std::process::id()));
        let compiled = |text| edited_in(&folder, "add [2, 3]", text, "wgsl");
        assert_eq!(compiled("one"), "one");
        assert_eq!(compiled("one"), "one", "what is there and the same");
        let path = path(&folder, "add [2, 3]", "one", "wgsl");
        assert!(path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("add__2__3_-")));
        fs::write(&path, "two").expect("a file");
        assert_eq!(compiled("one"), "two");
        assert_eq!(compiled("other"), "other", "another text has another file");
        fs::remove_dir_all(&folder).expect("a folder");
    }
}
