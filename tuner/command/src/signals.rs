//! Signals: a file that is too large is an error, and a program that is ended leaves no
//! half-written file.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering, Ordering::Relaxed};
#[cfg(unix)]
use std::time::Duration;

/// The signal that came, or 0.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// True if the command looks at [`interrupted`].
static GENTLY: AtomicBool = AtomicBool::new(false);

/// Time that a command may take to end by itself.
#[cfg(unix)]
const PATIENCE: Duration = Duration::from_millis(700);

/// Removes what a program leaves unfinished, set by [`prepare`].
static AT_END: Mutex<fn()> = Mutex::new(|| ());

/// Announces that the command looks at [`interrupted`] and ends by itself.
pub fn end_gently() {
    GENTLY.store(true, Ordering::SeqCst);
}

/// Returns true once a signal came.
pub fn interrupted() -> bool {
    SIGNAL.load(Ordering::SeqCst) != 0
}

/// Ends the program as the signal that came would have.
pub fn end() -> ! {
    // First, so that nothing that is measured outlives this process, or is recorded as failed
    // because it was ended.
    tuner::process::end_all();
    if let Ok(remove) = AT_END.lock().map(|at_end| *at_end) {
        remove();
    }
    #[cfg(unix)]
    say_what_was_done();
    #[cfg(unix)]
    // Ends the program with the status that a shell expects; if that fails, the next line does.
    let _ = signal_hook::low_level::emulate_default_handler(SIGNAL.load(Ordering::SeqCst));
    std::process::exit(1)
}

/// Makes writes beyond the limit on file sizes errors, and calls `at_end` when a signal ends the
/// program, to remove unfinished files.
#[cfg(unix)]
pub fn prepare(at_end: fn()) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    if let Ok(mut set) = AT_END.lock() {
        *set = at_end;
    }
    // SAFETY: to ignore a signal installs no handler, so no code of ours can run inside one.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    // A signal that is ignored, as SIGHUP under nohup, stays ignored.
    let wanted: Vec<i32> = [SIGHUP, SIGINT, SIGTERM]
        .into_iter()
        .filter(|&signal| !is_ignored(signal))
        .collect();
    // Without the thread a signal still ends the program, and leaves a temporary file.
    let Ok(mut signals) = Signals::new(&wanted) else {
        return;
    };
    let wait = move || {
        let Some(signal) = signals.forever().next() else {
            return;
        };
        SIGNAL.store(signal, Ordering::SeqCst);
        if GENTLY.load(Ordering::SeqCst) {
            // The command ends by itself, unless it waits for an input.
            std::thread::sleep(PATIENCE);
        }
        end();
    };
    if std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)
        .is_err()
    {
        for signal in wanted {
            // SAFETY: the default action is no handler, so no code of ours can run inside one.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

/// Returns true if this process was started with a signal ignored, as SIGHUP under nohup.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY:
    // - no new action is given, so none is set; the old one is written into `action`, which has
    //   room for it;
    // - `action` is all zeros before, which is a valid `sigaction` should the call write nothing.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Results that the user has of a command that is stopped, for the message.
static KEPT: Mutex<&str> = Mutex::new("");

/// True if another process speaks for this one.
static SILENT: AtomicBool = AtomicBool::new(false);

/// Sets the message for a stop from now on.
pub fn keeps(what: &'static str) {
    if let Ok(mut kept) = KEPT.lock() {
        *kept = what;
    }
}

/// Says nothing at a stop: another process speaks for this one.
pub fn be_silent() {
    SILENT.store(true, Relaxed);
}

#[cfg(unix)]
fn say_what_was_done() {
    use std::io::{IsTerminal, Write};

    if SILENT.load(Relaxed) {
        return;
    }
    let mut err = std::io::stderr();
    if err.is_terminal() {
        // Clears the progress bar and shows the cursor again.
        let _ = write!(err, "\r\x1b[2K\x1b[?25h");
    }
    let kept = KEPT.lock().map_or("", |kept| *kept);
    let kept = if kept.is_empty() {
        "no unfinished file is left"
    } else {
        kept
    };
    let _ = writeln!(err, "stopped: {kept}");
}

#[cfg(not(unix))]
pub fn prepare(_: fn()) {}
