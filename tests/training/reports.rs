//! The page of a training: whole whenever it is there, and that of all of a training that is resumed.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use kiln::Error;
use kiln::train::{Checkpoints, Report, TrainerOpts};

use crate::train::{alone, folder, loader, trainer};

fn page(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("report.html")).unwrap_or_default()
}

/// Of a training that was stopped and resumed, the page is that of all of it.
#[test]
fn a_report_goes_on_where_a_training_does() {
    let folder = folder("report");
    let points = |epochs: u64| {
        alone(|| {
            let mut trainer = trainer(TrainerOpts::default().epochs(epochs))
                .validate_on(loader(24))
                .checkpoints(Checkpoints::new(&folder))
                .log_to(Report::new(folder.join("report.html")));
            trainer.resume().unwrap();
            trainer.fit(&loader(40)).unwrap();
        });
        let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
        page.matches("validation, step").count()
    };
    let first = points(2);
    assert!(first > 0);
    assert_eq!(points(4), 2 * first);
    // Another training in its place begins anew.
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let is_state = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "safetensors");
    files.filter(is_state).for_each(|path| std::fs::remove_file(path).unwrap());
    assert_eq!(points(2), first);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Set in a process that trains until it is killed: the folder of its page.
const KILLED: &str = "KILN_TEST_KILLED";

fn train_until_killed(folder: &Path) {
    let report = Report::new(folder.join("report.html")).every(Duration::from_millis(20));
    let mut trainer = trainer(TrainerOpts::default().epochs(u64::MAX).log_every(1)).log_to(report);
    trainer.fit(&loader(40)).unwrap();
}

#[test]
fn a_training_that_is_killed_leaves_a_whole_page() {
    if let Some(folder) = std::env::var_os(KILLED) {
        return train_until_killed(Path::new(&folder));
    }
    let folder = folder("killed");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "reports::a_training_that_is_killed_leaves_a_whole_page"]);
    let mut child = command.env(KILLED, &folder).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while page(&folder).matches("train, step").count() < 5 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let page = page(&folder);
    assert!(page.matches("train, step").count() >= 5 && page.ends_with("</html>\n"), "{page}");
    assert!(page.contains("<b>not finished</b>"));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_training_that_fails_leaves_a_page_that_says_so() {
    let folder = folder("failed");
    let report = Report::new(folder.join("report.html")).every(Duration::from_secs(3600));
    let failed = alone(|| {
        let mut trainer =
            trainer(TrainerOpts::default().epochs(2).log_every(1)).log_to(report).on_step(|event| {
                let (path, message) = ("batch 7".into(), "a <bad> sample".into());
                if event.step < 7 {
                    Ok(())
                } else {
                    Err(Error::File { path, message, span: kiln::Span::caller() })
                }
            });
        trainer.fit(&loader(40))
    });
    assert!(failed.is_err());
    let page = page(&folder);
    assert!(page.contains("failed: ") && page.contains("a &lt;bad&gt; sample"), "{page}");
    // The first was written at once, the others with the error.
    assert_eq!(page.matches("train, step").count(), 6 * 2);
    std::fs::remove_dir_all(folder).unwrap();
}
