//! Copies the files of the folder `/redislock` to another folder, a volume: `copy /target`. The image has nothing else, neither a shell nor a
//! libc, so this program is linked statically.

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

/// Renames each file into place, since a server may be running the old one.
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
