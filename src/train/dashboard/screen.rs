//! The terminal: taken for a picture, and given back as it was.

use std::io::{self, IsTerminal, Stderr, stderr, stdin, stdout};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

use crate::train::dashboard::status::Status;
use crate::train::dashboard::view::draw;

/// Whether the process shows a picture: at most one.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);
/// Held while it is drawn, so that nothing is drawn once the terminal is given back.
static DRAWING: Mutex<()> = Mutex::new(());
/// The time between two pictures.
const PERIOD: Duration = Duration::from_millis(200);

/// A picture on the terminal, drawn by a thread of its own until it is dropped.
#[derive(Debug)]
pub(super) struct Screen(Option<JoinHandle<()>>);

impl Screen {
    /// Shows a status; `None` where there is no terminal, or none for this process.
    pub fn show(status: &Arc<Mutex<Status>>) -> Option<Screen> {
        if !is_own_terminal() || IS_SHOWN.swap(true, Ordering::AcqRel) {
            return None;
        }
        restore_on_panic();
        let terminal = take();
        let status = status.clone();
        let drawing = |mut terminal| thread::Builder::new().spawn(move || run(&mut terminal, &status));
        match terminal.and_then(drawing) {
            Ok(thread) => Some(Screen(Some(thread))),
            Err(_) => {
                restore();
                None
            }
        }
    }

    /// Whether it is there still: the user may have ended it.
    pub fn is_shown(&self) -> bool {
        self.0.is_some() && IS_SHOWN.load(Ordering::Acquire)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
        if let Some(thread) = self.0.take() {
            // A panic of its own has been told.
            let _ = thread.join();
        }
    }
}

/// Whether there is a terminal that shows pictures, and this process may ask it for keys.
fn is_own_terminal() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    stdin().is_terminal() && stdout().is_terminal() && stderr().is_terminal() && !is_dumb && is_in_front()
}

/// A process in the background is stopped when it changes the terminal.
#[cfg(unix)]
fn is_in_front() -> bool {
    rustix::termios::tcgetpgrp(stdin()).is_ok_and(|front| front == rustix::process::getpgrp())
}

#[cfg(not(unix))]
fn is_in_front() -> bool {
    true
}

/// The terminal without its own lines, echo and signals.
fn take() -> io::Result<Terminal<CrosstermBackend<Stderr>>> {
    enable_raw_mode()?;
    execute!(stderr(), EnterAlternateScreen)?;
    Terminal::new(CrosstermBackend::new(stderr()))
}

/// Gives the terminal back, if it is taken.
fn restore() {
    if IS_SHOWN.swap(false, Ordering::AcqRel) {
        let _drawn = drawn();
        // Nothing else can be done for it.
        let _ = disable_raw_mode();
        let _ = execute!(stderr(), LeaveAlternateScreen, Show);
    }
}

/// Waits until a picture is drawn. Not forever: the thread that draws may be the one that panics.
fn drawn() -> Option<MutexGuard<'static, ()>> {
    for _ in 0..50 {
        match DRAWING.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(4)),
        }
    }
    None
}

/// A panic's message goes to the terminal as it was.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
    });
}

/// Draws and takes keys, until the terminal is given back.
fn run(terminal: &mut Terminal<CrosstermBackend<Stderr>>, status: &Mutex<Status>) {
    while IS_SHOWN.load(Ordering::Acquire) {
        if picture(terminal, status).is_err() {
            return restore();
        }
        match key() {
            Some(Key::Quit) => restore(),
            Some(Key::Interrupt) => {
                restore();
                interrupt();
            }
            None => {}
        }
    }
}

fn picture(terminal: &mut Terminal<CrosstermBackend<Stderr>>, status: &Mutex<Status>) -> io::Result<()> {
    let _drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
    if IS_SHOWN.load(Ordering::Acquire) {
        let status = status.lock().unwrap_or_else(PoisonError::into_inner);
        terminal.draw(|frame| draw(frame, &status, Instant::now()))?;
    }
    Ok(())
}

enum Key {
    Quit,
    Interrupt,
}

/// What the user asks for before the next picture is due.
fn key() -> Option<Key> {
    let until = Instant::now() + PERIOD;
    while IS_SHOWN.load(Ordering::Acquire) {
        let rest = until.saturating_duration_since(Instant::now()).min(PERIOD / 4);
        if rest.is_zero() {
            return None;
        }
        match event::poll(rest) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(_) => {
                thread::sleep(rest);
                continue;
            }
        }
        match event::read() {
            Ok(Event::Key(key)) if key.kind == KeyEventKind::Press => {
                let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
                match key.code {
                    KeyCode::Char('c') if with_control => return Some(Key::Interrupt),
                    KeyCode::Char('q') => return Some(Key::Quit),
                    _ => {}
                }
            }
            Ok(Event::Resize(..)) => return None,
            _ => {}
        }
    }
    None
}

/// Does what Ctrl-C does where nobody takes keys.
fn interrupt() {
    #[cfg(unix)]
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
    #[cfg(not(unix))]
    std::process::exit(130);
}
