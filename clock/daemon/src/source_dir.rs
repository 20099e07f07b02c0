//! The directory of files with more sources, as programs for DHCP leave them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use truechimer_engine::{Config, Origin};

use crate::config;

/// The most files that are read.
const MOST: usize = 64;
/// The longest of them, in bytes.
const MAX_FILE: u64 = 1 << 16;

/// Adds the sources of all files `*.toml` in the directory, in the order of their names; one that is
/// there already is the same wish. A file that is wrong is left out: returns what is wrong.
pub(crate) fn read(directory: &Path, config: &mut Config, has_key_file: bool) -> Vec<String> {
    let (files, mut wrong) = match files(directory) {
        Ok(files) => (files, Vec::new()),
        // Whoever has sources to add makes it.
        Err(why) if why.kind() == ErrorKind::NotFound => return Vec::new(),
        Err(why) => return vec![format!("`source-dir` {}: {why}", directory.display())],
    };
    let mut read = 0;
    for path in files {
        let name = path.display().to_string();
        let text = match truechimer_config::read_own(&path, MAX_FILE) {
            Ok(text) => text,
            Err(why) if why.kind() == ErrorKind::NotFound => continue,
            // Others' files take nobody's place, nor do they fill the log.
            Err(_) if wrong.len() >= MOST => continue,
            Err(why) => {
                wrong.push(format!("{name} is left out: {why}"));
                continue;
            }
        };
        read += 1;
        if read > MOST {
            let directory = directory.display();
            wrong.push(format!(
                "`source-dir` {directory}: more than {MOST} files, of which the first are read"
            ));
            break;
        }
        match config::added(&text, &name, Origin::SourceDir, has_key_file) {
            Ok(sources) => {
                for source in sources {
                    if !config.sources.iter().any(|there| there.name() == source.name()) {
                        config.sources.push(source);
                    }
                }
            }
            Err(why) => wrong.push(format!("{name} is left out: {why}")),
        }
    }
    wrong
}

fn files(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use truechimer_engine::SourceConfig;

    #[test]
    fn good_files_are_read_in_order_and_bad_ones_left_out() {
        let directory = std::env::temp_dir().join(format!("truechimer-dir-{}", std::process::id()));
        let mut config = Config { sources: vec![SourceConfig::new("here")], ..Config::default() };
        assert!(read(&directory, &mut config, false).is_empty(), "it is not there");
        fs::create_dir(&directory).unwrap();
        let write = |name: &str, text: &[u8]| fs::write(directory.join(name), text).unwrap();
        write("b.toml", b"[[source]]\nhost = \"b\"\n[[source]]\nhost = \"here\"\npoll = 64");
        write("a.toml", b"[[source]]\npool = \"a\"");
        write("c.toml", b"[[source]]\nhost = \"c\"\nkey = 1");
        write("d.toml", b"sandbox = false");
        write("e.toml", &[0xff; 10]);
        write("f.txt", b"nonsense");
        write("g.toml", &vec![b'#'; 1 << 17]);
        fs::create_dir(directory.join("h.toml")).unwrap();
        let wrong = read(&directory, &mut config, false);
        fs::remove_dir_all(&directory).unwrap();
        let names: Vec<String> = config.sources.iter().map(SourceConfig::name).collect();
        assert_eq!(names, ["here:123", "a:123", "b:123"]);
        assert_eq!((config.sources[0].poll, config.sources[1].origin), (16, Origin::SourceDir));
        assert_eq!(wrong.len(), 5, "{wrong:?}");
        for (text, file) in wrong.iter().zip(["c", "d", "e", "g", "h"]) {
            assert!(text.contains(&format!("/{file}.toml")), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_takes_the_place_of_nothing_that_can() {
        let name = format!("truechimer-dir-most-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).unwrap();
        for n in 0..MOST + 6 {
            fs::create_dir(directory.join(format!("a{n}.toml"))).unwrap();
        }
        let look = || {
            let mut config = Config::default();
            let wrong = read(&directory, &mut config, false);
            (config.sources.len(), wrong)
        };
        let write = |n| fs::write(directory.join(format!("b{n}.toml")), "[[source]]\nhost = \"b\"");
        write(0).unwrap();
        let (sources, wrong) = look();
        assert_eq!((sources, wrong.len()), (1, MOST));
        (1..=MOST).for_each(|n| write(n).unwrap());
        let (sources, wrong) = look();
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!((sources, wrong.len()), (1, MOST + 1));
        assert!(wrong[MOST].contains("more than 64 files"), "{}", wrong[MOST]);
    }
}
