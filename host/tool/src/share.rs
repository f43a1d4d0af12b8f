//! `ut-decode share`: manual pages and completions.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_complete::Shell;

use crate::output::{count, print, write_file};
use crate::{Cli, Failure};

/// Places of each shell's completions, below a folder `share`.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/ut-decode"),
    (Shell::Zsh, "zsh/site-functions/_ut-decode"),
    (Shell::Fish, "fish/vendor_completions.d/ut-decode.fish"),
];

pub fn run(folder: &Path) -> Result<(), Failure> {
    let mut command = Cli::command();
    let mut files: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for (shell, name) in COMPLETIONS {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, "ut-decode", &mut script);
        files.push((name.into(), script));
    }
    command.build();
    manuals(&command, &mut files)?;
    for (name, contents) in &files {
        let path = folder.join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        }
        write_file(&path, contents)?;
    }
    print(&format!(
        "{} written to {}\n",
        count(files.len(), "file"),
        folder.display()
    ))
}

fn manuals(command: &clap::Command, files: &mut Vec<(PathBuf, Vec<u8>)>) -> Result<(), Failure> {
    let man = clap_mangen::Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    files.push((Path::new("man/man1").join(man.get_filename()), page));
    let visible = |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
    command
        .get_subcommands()
        .filter(visible)
        .try_for_each(|command| manuals(command, files))
}
