//! A dashboard on a terminal, which `script` makes: however the training ends, the terminal is as it was.
#![cfg(all(feature = "dashboard", target_os = "linux"))]

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use kiln::Error;
use kiln::train::{Dashboard, TrainerOpts};

use crate::train::{alone, loader, trainer};

/// Set in a process on a terminal: how its training ends.
const END: &str = "KILN_TEST_DASHBOARD";
/// What a terminal is told for a picture, and after it.
const SHOWN: &str = "\x1b[?1049h";
const HIDDEN: &str = "\x1b[?1049l";

fn train(end: &str) {
    let epochs = if end == "done" { 2 } else { 8 };
    let opts = TrainerOpts::default().epochs(epochs).log_every(1);
    let mut trainer = trainer(opts).log_to(Dashboard::new().title("a test")).on_step(|event| {
        std::thread::sleep(Duration::from_millis(30));
        match end {
            "panics" if event.step == 5 => panic!("a bad step"),
            "fails" if event.step == 5 => {
                Err(Error::File { path: "a batch".into(), message: "bad".into(), span: kiln::Span::caller() })
            }
            _ => Ok(()),
        }
    });
    if let Err(error) = alone(|| trainer.fit(&loader(40))) {
        // The trainer, and the dashboard in it, are there still.
        eprintln!("failed: {error}");
    }
}

/// What a terminal is told by a training that ends so, and by a look at its settings afterwards. Keys are typed once
/// there is a picture.
fn told(end: &str, keys: &str) -> String {
    let program = std::env::current_exe().expect("this program");
    let test = "dashboard::the_terminal_is_as_it_was_however_the_training_ends";
    let command =
        format!("stty rows 24 columns 80; {} --exact {test} --nocapture; stty -a", program.display());
    let mut script = Command::new("script");
    script.args(["--quiet", "--command", &command, "/dev/null"]).env(END, end).env("TERM", "xterm");
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script");
    let (mut stdin, mut stdout) = (child.stdin.take().expect("keys"), child.stdout.take().expect("a screen"));
    let (mut told, mut typed, mut part) = (Vec::new(), false, [0; 4096]);
    while let Ok(count @ 1..) = stdout.read(&mut part) {
        told.extend_from_slice(&part[..count]);
        if !typed && String::from_utf8_lossy(&told).contains("loss") {
            typed = true;
            stdin.write_all(keys.as_bytes()).expect("a key");
        }
    }
    drop(stdin);
    child.wait().expect("an end");
    String::from_utf8_lossy(&told).into_owned()
}

#[test]
fn the_terminal_is_as_it_was_however_the_training_ends() {
    if let Ok(end) = std::env::var(END) {
        return train(&end);
    }
    if Command::new("script").arg("--version").output().is_err() {
        return println!("skipped: no `script`, which makes terminals");
    }
    let ends = [
        ("done", "", "epoch 1, step 10, train: loss"),
        ("fails", "", "failed: a batch: bad"),
        ("panics", "", "a bad step"),
        ("interrupted", "\x03", "speed 38400 baud"),
        ("hidden", "q", "epoch 7, step 40, train: loss"),
    ];
    for (end, keys, after) in ends {
        let told = told(end, keys);
        let (_, shown) = told.split_once(SHOWN).unwrap_or_else(|| panic!("{end}: no picture in {told}"));
        let (picture, rest) =
            shown.split_once(HIDDEN).unwrap_or_else(|| panic!("{end}: left as it is, {told}"));
        assert!(picture.contains("a test") && !rest.contains(SHOWN), "{end}: {told}");
        assert_eq!(rest.contains("test result: "), end != "interrupted", "{end}: {rest}");
        let is_plain = ["icanon", "echo", "isig", "opost"]
            .iter()
            .all(|it| rest.split_whitespace().any(|word| word == *it));
        assert!(rest.contains(after) && is_plain, "{end}: {rest}");
    }
}
