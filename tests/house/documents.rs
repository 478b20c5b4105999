//! Documents stay short, narrow and true: words, columns and lines of a paragraph have limits, the
//! files that a document names exist, and listings that name a file are taken from it.

use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS: usize = 110;
const PARAGRAPH: usize = 6;
/// Folders whose files documents name by their path from the repository's root.
const FOLDERS: &[&str] = &["src", "crates", "tests", "docs", "benches", "examples", "shaders", "kernels"];

/// Endings of the files that documents may name by the end of their path.
const SOURCES: &[&str] = &["rs", "wgsl", "cu", "cuh", "py", "sh"];

/// Files that pages have their reader write.
const TO_WRITE: &[&str] = &["src/runtime/toy.rs", "examples/wrong.rs"];

/// A document and the most words it may have.
struct Document {
    path: PathBuf,
    text: String,
    words: usize,
}

fn documents() -> Vec<Document> {
    let named = [
        ("README.md", 1100),
        ("ARCHITECTURE.md", 3500),
        ("benches/RESULTS.md", 800),
        ("CHANGELOG.md", usize::MAX),
    ];
    let pages = fs::read_dir("docs").into_iter().flatten().map(|page| page.expect("a readable page").path());
    let pages = pages.filter(|page| page.extension().is_some_and(|extension| extension == "md"));
    let named = named.into_iter().map(|(path, words)| (PathBuf::from(path), words));
    let read = |(path, words): (PathBuf, usize)| {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Document { path, text, words }
    };
    named.chain(pages.map(|page| (page, 1500))).map(read).collect()
}

/// Runs a check on every document and lists all that it finds.
#[track_caller]
fn none_found(check: impl Fn(&Document) -> Vec<String>) {
    let found: Vec<String> = documents()
        .iter()
        .flat_map(|document| {
            check(document).into_iter().map(|what| format!("{}: {what}", document.path.display()))
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What a line of Markdown is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Blank,
    Heading,
    Code,
    Table,
    /// The first line of a list's item.
    Item,
    Prose,
}

fn is_item(line: &str) -> bool {
    let number = line.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* "].iter().any(|mark| line.starts_with(mark))
        || number.len() < line.len() && number.starts_with(". ")
}

/// The lines of a text with what they are part of.
fn lines(text: &str) -> Vec<(Line, &str)> {
    let mut in_code = false;
    let kind = |line: &str| {
        let start = line.trim_start();
        let fence = start.starts_with("```");
        in_code ^= fence;
        match start {
            _ if fence || in_code => Line::Code,
            "" => Line::Blank,
            _ if start.starts_with('#') => Line::Heading,
            _ if start.starts_with('|') => Line::Table,
            _ if is_item(start) => Line::Item,
            _ => Line::Prose,
        }
    };
    text.lines().map(kind).zip(text.lines()).collect()
}

/// Words are what has a letter or a digit, code and tables included.
fn count_words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

/// Lines that are too wide. Cells of a table cannot be broken.
fn wide_lines(text: &str) -> Vec<String> {
    let wide = lines(text)
        .into_iter()
        .enumerate()
        .filter(|(_, (kind, line))| *kind != Line::Table && line.chars().count() > COLUMNS);
    wide.map(|(at, (_, line))| format!("line {} has {} columns", at + 1, line.chars().count())).collect()
}

/// Paragraphs, and items of lists, that are too long.
fn long_paragraphs(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut length = 0;
    for (at, (kind, _)) in lines(text).into_iter().enumerate() {
        length = match kind {
            Line::Item => 1,
            Line::Prose => length + 1,
            Line::Blank | Line::Heading | Line::Code | Line::Table => 0,
        };
        if length == PARAGRAPH + 1 {
            found.push(format!("line {}: a paragraph of more than {PARAGRAPH} lines", at + 1));
        }
    }
    found
}

/// What stands between backticks in prose, lists and tables.
fn code_spans(text: &str) -> Vec<String> {
    let prose: Vec<&str> =
        lines(text).into_iter().filter(|(kind, _)| *kind != Line::Code).map(|(_, line)| line).collect();
    let joined = prose.join("\n");
    joined.split('`').skip(1).step_by(2).map(|span| span.replace('\n', " ")).collect()
}

/// The files and folders that a text names in backticks: by their path from the repository's root,
/// or, of source files, by the end of it. A command's arguments count.
fn named_files(text: &str) -> Vec<String> {
    let spans = code_spans(text);
    let words = spans.iter().flat_map(|span| span.split_whitespace());
    let name = |word: &str| {
        let word = word.split(':').next().unwrap_or(word);
        word.trim_end_matches(['/', ',', '.']).to_string()
    };
    words
        .filter(|word| !word.contains("://"))
        .map(name)
        .filter(|name| is_rooted(name) || is_source(name))
        .collect()
}

fn is_rooted(name: &str) -> bool {
    name.split_once('/').is_some_and(|(folder, _)| FOLDERS.contains(&folder))
}

fn is_source(name: &str) -> bool {
    name.rsplit_once('.')
        .is_some_and(|(before, extension)| !before.is_empty() && SOURCES.contains(&extension))
}

/// The targets of a text's links that are not addresses of the web.
fn relative_links(text: &str) -> Vec<String> {
    let prose = lines(text).into_iter().filter(|(kind, _)| *kind != Line::Code).map(|(_, line)| line);
    let targets = prose.flat_map(|line| line.split("](").skip(1)).filter_map(|rest| rest.split(')').next());
    let file = |target: &str| target.split('#').next().unwrap_or_default().to_string();
    let relative = targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    relative.map(file).filter(|target| !target.is_empty()).collect()
}

/// Listings whose fence names a file, as in "```text tests/golden/softmax.ir": the file and the lines.
fn listings(text: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        match line.strip_prefix("```") {
            Some(info) => {
                let named = info.split_once(' ').filter(|_| !open);
                open = named.is_some();
                found.extend(named.map(|(_, file)| (file, Vec::new())));
            }
            None if open => found.last_mut().expect("an open listing").1.push(line),
            None => {}
        }
    }
    found
}

/// The first line of a listing that its file does not have after the others; `...` skips.
fn first_foreign<'a>(listing: &[&'a str], file: &str) -> Option<&'a str> {
    let mut rest = file.lines();
    let shown = listing.iter().filter(|line| **line != "...");
    shown.copied().find(|line| !rest.any(|other| other == *line))
}

/// The paths of the repository's files and of the folders they are in.
fn repository() -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.expect("a readable entry").path();
            found.push(path.to_string_lossy().into_owned());
            walk(&path, found);
        }
    }
    let mut found = vec!["Cargo.toml".to_string(), "rustfmt.toml".to_string()];
    FOLDERS.iter().for_each(|folder| walk(Path::new(folder), &mut found));
    found
}

/// Whether a name is that of one of these paths; a `*` stands for any part of it.
fn exists(name: &str, paths: &[String]) -> bool {
    let is_it = |path: &str| match name.split_once('*') {
        Some((before, after)) => {
            let rest = path.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            rest.is_some_and(|part| !part.contains('/'))
        }
        None => path == name,
    };
    let ends = |path: &str| path.match_indices('/').any(|(at, _)| is_it(&path[at + 1..]));
    paths.iter().any(|path| is_it(path) || !is_rooted(name) && ends(path))
}

#[test]
fn documents_are_short() {
    none_found(|document| {
        let words = count_words(&document.text);
        let over = words > document.words;
        over.then(|| format!("{words} words, at most {}", document.words)).into_iter().collect()
    });
}

#[test]
fn lines_are_narrow() {
    none_found(|document| wide_lines(&document.text));
}

#[test]
fn paragraphs_are_short() {
    none_found(|document| long_paragraphs(&document.text));
}

#[test]
fn an_entry_of_the_changelog_is_a_line() {
    let text = fs::read_to_string("CHANGELOG.md").expect("a changelog");
    let lines = lines(&text);
    let broken = lines.windows(2).filter(|pair| pair[0].0 == Line::Item && pair[1].0 == Line::Prose);
    let broken: Vec<&str> = broken.map(|pair| pair[0].1).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn named_files_exist() {
    let paths = repository();
    none_found(|document| {
        let names = named_files(&document.text).into_iter();
        names.filter(|name| !exists(name, &paths) && !TO_WRITE.contains(&name.as_str())).collect()
    });
}

#[test]
fn links_lead_to_files() {
    none_found(|document| {
        let folder = document.path.parent().expect("a file's folder");
        let broken = relative_links(&document.text).into_iter().filter(|link| !folder.join(link).exists());
        broken.map(|link| format!("a link to {link}")).collect()
    });
}

#[test]
fn listings_are_taken_from_their_files() {
    none_found(|document| {
        let foreign = |(file, listing): (&str, Vec<&str>)| {
            let text = fs::read_to_string(file).unwrap_or_default();
            first_foreign(&listing, &text).map(|line| format!("{file} has no such line here: {line}"))
        };
        listings(&document.text).into_iter().filter_map(foreign).collect()
    });
}

#[test]
fn what_is_wrong_is_found() {
    assert_eq!(count_words("| a | 0.5 |\n|---|---|\nthree `words` - here"), 5);
    let wide = format!("{}\n| {} |\n", "x".repeat(111), "x".repeat(111));
    assert_eq!(wide_lines(&wide), ["line 1 has 111 columns"]);
    assert_eq!(long_paragraphs(&"x\n".repeat(7)).len(), 1);
    assert!(long_paragraphs(&"- x\n  x\n".repeat(7)).is_empty());
    assert!(long_paragraphs(&format!("```\n{}```\n", "x\n".repeat(9))).is_empty());
    let names = named_files("`src/lib.rs` `cargo run` `src/no.rs:12` `tests/golden/*.ir` `ir/op.rs` `x.ir`");
    assert_eq!(names, ["src/lib.rs", "src/no.rs", "tests/golden/*.ir", "ir/op.rs"]);
    let paths = repository();
    for there in ["src/lib.rs", "tests/golden/*.ir", "ir/op.rs", "op.rs", "golden.rs"] {
        assert!(exists(there, &paths), "{there}");
    }
    for missing in ["src/op.rs", "tests/golden/*.nothing", "r/op.rs", "src/*.wgsl", "ir/o.rs"] {
        assert!(!exists(missing, &paths), "{missing}");
    }
    let text = "```sh\na\n```\n```text x.ir\na\n...\nc\n```\nd\n";
    assert_eq!(listings(text), [("x.ir", vec!["a", "...", "c"])]);
    assert_eq!(first_foreign(&["a", "...", "c"], "a\nb\nc\n"), None);
    assert_eq!(first_foreign(&["c", "a"], "a\nb\nc\n"), Some("a"));
    assert_eq!(relative_links("[a](docs/cpu.md#tiles) [b](https://x.org) [c](#here)"), ["docs/cpu.md"]);
}
