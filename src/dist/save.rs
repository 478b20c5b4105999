//! States that all ranks save together.

use std::collections::BTreeSet;
use std::path::Path;

use crate::base::{Error, Result, Span};
use crate::dist::group::Group;
use crate::dist::texts::texts;
use crate::io::{SEPARATOR, ShardSet, StateDict};

/// What begins the text of a rank that has failed.
const FAILED: char = '\u{1}';

impl Group {
    /// Writes one state of which each rank holds a part: a file for each rank, all at once, and then their index,
    /// `folder/model.safetensors.index.json` for `folder/model.safetensors`. [`StateDict::open`] takes that, on any
    /// number of ranks. It is one atomic set: what opens is all of the old state until the index is in place, and
    /// all of the new one then. All ranks see one folder, and call it together.
    ///
    /// PyTorch: `torch.distributed.checkpoint.save`.
    ///
    /// # Errors
    /// On every rank: a name that two ranks have, and what [`StateDict::save_sharded`] says, on any of them. The old
    /// state is then as it was.
    ///
    /// # Examples
    /// ```
    /// use kiln::prelude::*;
    /// use kiln::{StateDict, dist};
    /// # let folder = std::env::temp_dir().join(format!("kiln-parts-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder).unwrap();
    /// dist::spawn(2, |group| {
    ///     let mut state = StateDict::new();
    ///     state.insert(format!("rank.{}", group.rank()), &Tensor::from([group.rank() as f32]))?;
    ///     group.save_sharded(&state, folder.join("model.safetensors"))
    /// })?;
    /// let whole = StateDict::open(folder.join("model.safetensors.index.json"))?;
    /// assert_eq!(whole.len(), 2);
    /// # drop(whole);
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// # Ok::<(), kiln::Error>(())
    /// ```
    #[track_caller]
    pub fn save_sharded(&self, state: &StateDict, path: impl AsRef<Path>) -> Result<()> {
        let (path, span) = (path.as_ref(), Span::caller());
        let _line = span.enter();
        let own = if self.rank() == 0 { Some(ShardSet::begin(path, span)) } else { None };
        let begun = own.as_ref().map(|set| set.as_ref().map(|set| set.number().to_string()));
        let begun = self.said(begun.unwrap_or(Ok(String::new())).map_err(Error::clone), path, span)?;
        let number: u64 = begun[0].parse().unwrap_or_default();
        let shard = ShardSet::write(path, number, (self.rank() + 1, self.size()), state, span);
        let written =
            self.said(shard.as_ref().map(|shard| shard.text()).map_err(Error::clone), path, span)?;
        let twice = twice(&written);
        let ended = match (own, twice) {
            (_, Some(name)) => Err(Error::Argument {
                call: "save_sharded",
                expected: "names that one rank has".into(),
                found: format!("{name} on two ranks"),
                span,
            }),
            (Some(set), None) => set.and_then(|set| set.finish(&written, span)),
            (None, None) => Ok(()),
        };
        self.said(ended.map(|()| String::new()), path, span).map(drop)
    }

    /// What each rank has to say; on all ranks an error if one has failed.
    fn said(&self, own: Result<String>, path: &Path, span: Span) -> Result<Vec<String>> {
        let text = own.as_ref().map_or_else(|error| format!("{FAILED}{error}"), Clone::clone);
        let all = texts(self, text, span)?;
        own?;
        match all.iter().enumerate().find_map(|(rank, text)| Some((rank, text.strip_prefix(FAILED)?))) {
            Some((rank, error)) => {
                let message = format!("rank {rank} could not save: {error}");
                Err(Error::File { path: path.display().to_string(), message, span })
            }
            None => Ok(all),
        }
    }
}

/// A tensor that is in the files of two ranks.
fn twice(written: &[String]) -> Option<&str> {
    let mut known = BTreeSet::new();
    // The file and its bytes come first.
    written.iter().flat_map(|text| text.split(SEPARATOR).skip(2)).find(|name| !known.insert(*name))
}
