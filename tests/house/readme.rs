//! What `docs/coming-from-pytorch.md` claims to be tested is tested: each row of its table of
//! device tools names tests that exist.

use std::fs;
use std::path::PathBuf;

/// The names in backticks in the last column of the table under a heading, by row.
fn named_tests(page: &str, heading: &str) -> Vec<Vec<String>> {
    let section = page.split(heading).nth(1).expect("the heading");
    let rows = section.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let last = |row: &str| {
        let cell = row.trim_end_matches('|').rsplit('|').next().expect("a cell").to_string();
        cell.split('`').skip(1).step_by(2).map(str::to_string).collect()
    };
    rows.map(last).collect()
}

/// The files where a test of this path could be: `file::test` of a test program,
/// or `module::tests::test` of the library.
fn files(path: &str) -> Vec<PathBuf> {
    let (modules, _) = path.rsplit_once("::").expect("a test's path");
    let folder = modules.replace("::", "/");
    let own = folder.trim_end_matches("/tests");
    let places = [
        format!("tests/{folder}.rs"),
        format!("tests/{folder}/main.rs"),
        format!("src/{folder}.rs"),
        format!("src/{folder}/mod.rs"),
        format!("src/{own}.rs"),
        format!("src/{own}/mod.rs"),
    ];
    places.into_iter().map(PathBuf::from).filter(|path| path.exists()).collect()
}

/// Whether a text has a test function of this name.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let starts = |line: &str| line.starts_with(&format!("fn {name}("));
    let attributes = |at: usize| lines[..at].iter().rev().take_while(|line| line.starts_with('#'));
    lines.iter().position(|line| starts(line)).is_some_and(|at| attributes(at).any(|line| *line == "#[test]"))
}

fn exists(path: &str) -> bool {
    let name = path.rsplit("::").next().expect("a name");
    let text = |file: &PathBuf| fs::read_to_string(file).expect("a source file");
    files(path).iter().any(|file| has_test(&text(file), name))
}

#[test]
fn each_row_of_pytorchs_device_tools_names_tests_that_exist() {
    let page = fs::read_to_string("docs/coming-from-pytorch.md").expect("the page");
    let rows = named_tests(&page, "## Device tools");
    assert!(rows.len() > 30, "{} rows", rows.len());
    assert!(rows.iter().all(|tests| !tests.is_empty()), "a row names no test");
    let missing: Vec<&String> = rows.iter().flatten().filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

#[test]
fn a_test_that_is_not_there_is_missed() {
    assert!(exists("house::readme::a_test_that_is_not_there_is_missed"));
    assert!(!exists("house::readme::a_test_that_nobody_wrote"));
    assert!(!exists("house::readme::has_test"), "no test");
    assert!(!exists("nowhere::each_row_of_pytorchs_device_tools_names_tests_that_exist"));
}
