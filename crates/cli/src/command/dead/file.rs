//! The file of an archive: one JSON object a line, compressed by the program gzip where its name or its beginning says so.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::NamedTempFile;
use windlass_core::size::CAP_MAX;

use crate::exit::Fault;

/// The longest line: the largest payload in base64, and room for its errors.
const LINE_MAX: u64 = (CAP_MAX as u64) * 2;

/// An archive that is being written, under a name of its own until it is complete.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    file: NamedTempFile,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Plain(BufWriter<File>),
    Gzip(Child, BufWriter<ChildStdin>),
}

impl Writer {
    /// Begins a file that is not there yet.
    pub(super) fn create(path: &Path) -> Result<Self, Fault> {
        let unmade = |error: io::Error| Fault::failed(format!("cannot make {}: {error}", path.display()));
        if path.symlink_metadata().is_ok() {
            return Err(Fault::usage(format!("{} is there already: name another file", path.display())));
        }
        let file = NamedTempFile::new_in(folder(path)).map_err(unmade)?;
        let out = file.as_file().try_clone().map_err(unmade)?;
        let sink = if path.extension().is_some_and(|extension| extension == "gz") {
            let mut child = gzip(&["-c"], Stdio::piped(), out.into())?;
            let input = child.stdin.take().ok_or_else(|| Fault::failed("gzip has no input"))?;
            Sink::Gzip(child, BufWriter::new(input))
        } else {
            Sink::Plain(BufWriter::new(out))
        };
        Ok(Self { path: path.to_owned(), file, sink })
    }

    /// Adds a line.
    pub(super) fn add(&mut self, line: &str) -> Result<(), Fault> {
        let sink: &mut dyn Write = match &mut self.sink {
            Sink::Plain(sink) => sink,
            Sink::Gzip(_, sink) => sink,
        };
        let written = sink.write_all(line.as_bytes()).and_then(|()| sink.write_all(b"\n"));
        written.map_err(|error| unwritten(&self.path, &error))
    }

    /// Sees to it that everything is on the disk, and gives the file its name.
    pub(super) fn finish(self) -> Result<(), Fault> {
        let Self { path, file, sink } = self;
        let failed = |error: io::Error| unwritten(&path, &error);
        match sink {
            Sink::Plain(mut sink) => sink.flush().map_err(failed)?,
            Sink::Gzip(mut child, mut sink) => {
                sink.flush().map_err(failed)?;
                drop(sink);
                let status = child.wait().map_err(failed)?;
                if !status.success() {
                    return Err(Fault::failed(format!("cannot write {}: gzip failed", path.display())));
                }
            }
        }
        file.as_file().sync_all().map_err(failed)?;
        file.persist_noclobber(&path).map_err(|error| failed(error.error))?;
        // The name is in the folder, which is to be on the disk, too; not every system opens one.
        match File::open(folder(&path)) {
            Ok(folder) => folder.sync_all().map_err(failed),
            Err(_) => Ok(()),
        }
    }
}

/// An archive that is being read.
#[derive(Debug)]
pub(super) struct Reader {
    name: String,
    source: Source,
    pub(super) line: u64,
}

#[derive(Debug)]
enum Source {
    Plain(BufReader<File>),
    Gzip(Child, BufReader<ChildStdout>),
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        let name = path.display().to_string();
        let unread = |error: io::Error| Fault::usage(format!("cannot read {name}: {error}"));
        let mut file = File::open(path).map_err(unread)?;
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(2).read_to_end(&mut start).map_err(unread)?;
        file.rewind().map_err(unread)?;
        let source = if start == [0x1f, 0x8b] {
            let mut child = gzip(&["-dc"], file.into(), Stdio::piped())?;
            let output = child.stdout.take().ok_or_else(|| Fault::failed("gzip has no output"))?;
            Source::Gzip(child, BufReader::new(output))
        } else {
            Source::Plain(BufReader::new(file))
        };
        Ok(Self { name, source, line: 0 })
    }

    /// The next line; nothing at the end of a whole file.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let Self { name, source, line } = self;
        let at = format!("line {} of {name}", *line + 1);
        let lines: &mut dyn BufRead = match source {
            Source::Plain(lines) => lines,
            Source::Gzip(_, lines) => lines,
        };
        let mut bytes = Vec::new();
        let read = lines.take(LINE_MAX).read_until(b'\n', &mut bytes);
        read.map_err(|error| Fault::failed(format!("cannot read {at}: {error}")))?;
        match bytes.pop() {
            Some(b'\n') => {
                *line += 1;
                Ok(Some(bytes))
            }
            Some(_) => {
                Err(Fault::failed(format!("{at} has no end: the file was cut off, or is not an archive")))
            }
            None => self.end(),
        }
    }

    fn end(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        if let Source::Gzip(child, _) = &mut self.source {
            let status = child.wait();
            if !status.is_ok_and(|status| status.success()) {
                let (line, name) = (self.line, &self.name);
                return Err(Fault::failed(format!(
                    "{name} is damaged after line {line}: gzip cannot read it"
                )));
            }
        }
        Ok(None)
    }
}

/// Starts gzip out of the reach of Ctrl-C, which is heard here.
fn gzip(args: &[&str], input: Stdio, output: Stdio) -> Result<Child, Fault> {
    let mut command = Command::new("gzip");
    command.args(args).stdin(input).stdout(output).stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().map_err(|error| {
        Fault::failed(format!("cannot start gzip: {error}; install it, or use a file that is not compressed"))
    })
}

fn unwritten(path: &Path, error: &io::Error) -> Fault {
    Fault::failed(format!("cannot write {}: {error}", path.display()))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
