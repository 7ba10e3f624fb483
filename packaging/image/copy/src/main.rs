//! Copies the files of the folder `/redislock` to another one, which is a volume: `copy /target`. The image has nothing else,
//! no shell and no libc, so this is linked statically.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io, process};

const FILES: &str = "/redislock";

fn main() -> ExitCode {
    let Some(target) = env::args_os().nth(1) else {
        eprintln!("copy: the folder to copy to is missing: copy /target");
        return ExitCode::from(2);
    };
    let target = Path::new(&target);
    match copy_all(Path::new(FILES), target) {
        Ok(files) => {
            println!("copied {} for {} to {}", files.join(", "), env::consts::ARCH, target.display());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("copy: {}: {error}", target.display());
            ExitCode::FAILURE
        }
    }
}

/// Renames each file into place: a server may run the one that is there.
fn copy_all(from: &Path, to: &Path) -> io::Result<Vec<String>> {
    let mut copied = Vec::new();
    for file in fs::read_dir(from)? {
        let name = file?.file_name();
        let name = name.to_string_lossy();
        let unfinished = to.join(format!(".{name}.{}", process::id()));
        fs::copy(from.join(&*name), &unfinished)?;
        fs::rename(&unfinished, to.join(&*name))?;
        copied.push(name.into_owned());
    }
    copied.sort();
    Ok(copied)
}
