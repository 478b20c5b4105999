//! What loggers are told of a training, and its page: whole whenever it is there, and that of all of a training that
//! is resumed.

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use kiln::train::{Checkpoints, Logger, Record, Report, StepRecord, TrainerOpts};
use kiln::{Error, PlanReport};

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
    let trainer = trainer(TrainerOpts::default().epochs(u64::MAX).log_every(1)).log_to(report);
    // Slow enough that the second page has few points, which have titles then.
    let mut trainer = trainer.on_step(|_| {
        std::thread::sleep(Duration::from_millis(50));
        Ok(())
    });
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

/// What a logger that asks for plans is told.
#[derive(Clone, Default)]
struct Told {
    steps: Rc<RefCell<Vec<StepRecord>>>,
    /// Kernels and bytes at most, of each plan.
    plans: Rc<RefCell<Vec<(u64, u64)>>>,
}

impl Logger for Told {
    fn record(&mut self, _record: &Record) -> kiln::Result<()> {
        Ok(())
    }
    fn step(&mut self, step: &StepRecord) -> kiln::Result<()> {
        self.steps.borrow_mut().push(*step);
        Ok(())
    }
    fn wants_plans(&self) -> bool {
        self.steps.borrow().len() == 1
    }
    fn plans(&mut self, plans: &[PlanReport]) -> kiln::Result<()> {
        self.plans.borrow_mut().extend(plans.iter().map(|plan| (plan.launches(), plan.peak_bytes())));
        Ok(())
    }
}

#[test]
fn loggers_are_told_of_each_step_and_of_the_plans_of_one_if_they_ask() {
    for accumulate in [1, 2] {
        let told = Told::default();
        alone(|| {
            let opts = TrainerOpts::default().epochs(2).accumulate(accumulate);
            trainer(opts).log_to(told.clone()).fit(&loader(44)).unwrap();
        });
        let (steps, plans) = (told.steps.take(), told.plans.take());
        let steps: Vec<_> = steps.iter().map(|s| (s.epoch, s.step, s.epochs, s.steps, s.samples)).collect();
        // The last batch of an epoch has 4 samples.
        match accumulate {
            1 => assert_eq!(steps[4..7], [(0, 5, 2, 12, 8), (0, 6, 2, 12, 4), (1, 7, 2, 12, 8)]),
            _ => assert_eq!(steps[2..4], [(0, 3, 2, 6, 12), (1, 4, 2, 6, 16)]),
        }
        assert_eq!(plans.len(), accumulate, "a plan for each batch");
        assert!(plans.iter().all(|&(kernels, bytes)| kernels > 0 && bytes > 0), "{plans:?}");
    }
}
