//! The file of an archive: one JSON object a line, compressed where its name or its beginning says so.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;
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
    Gzip(GzEncoder<BufWriter<File>>),
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
        let out = BufWriter::new(out);
        let sink = if path.extension().is_some_and(|extension| extension == "gz") {
            Sink::Gzip(GzEncoder::new(out, Compression::default()))
        } else {
            Sink::Plain(out)
        };
        Ok(Self { path: path.to_owned(), file, sink })
    }

    /// Adds a line.
    pub(super) fn add(&mut self, line: &str) -> Result<(), Fault> {
        let sink: &mut dyn Write = match &mut self.sink {
            Sink::Plain(sink) => sink,
            Sink::Gzip(sink) => sink,
        };
        let written = sink.write_all(line.as_bytes()).and_then(|()| sink.write_all(b"\n"));
        written.map_err(|error| unwritten(&self.path, &error))
    }

    /// Sees to it that everything is on the disk, and gives the file its name.
    pub(super) fn finish(self) -> Result<(), Fault> {
        let Self { path, file, sink } = self;
        let failed = |error: io::Error| unwritten(&path, &error);
        let mut out = match sink {
            Sink::Plain(sink) => sink,
            Sink::Gzip(sink) => sink.finish().map_err(failed)?,
        };
        out.flush().map_err(failed)?;
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
    Gzip(BufReader<MultiGzDecoder<BufReader<File>>>),
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        let name = path.display().to_string();
        let unread = |error: io::Error| Fault::usage(format!("cannot read {name}: {error}"));
        let mut file = File::open(path).map_err(unread)?;
        let mut start = Vec::new();
        Read::by_ref(&mut file).take(2).read_to_end(&mut start).map_err(unread)?;
        file.rewind().map_err(unread)?;
        let file = BufReader::new(file);
        let source = match &start[..] {
            [0x1f, 0x8b] => Source::Gzip(BufReader::new(MultiGzDecoder::new(file))),
            _ => Source::Plain(file),
        };
        Ok(Self { name, source, line: 0 })
    }

    /// The next line; nothing at the end of a whole file.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let Self { name, source, line } = self;
        let at = format!("line {} of {name}", *line + 1);
        let (lines, is_gzip): (&mut dyn BufRead, _) = match source {
            Source::Plain(lines) => (lines, false),
            Source::Gzip(lines) => (lines, true),
        };
        let mut bytes = Vec::new();
        let read = lines.take(LINE_MAX).read_until(b'\n', &mut bytes);
        read.map_err(|error| match is_gzip {
            // A file that was cut off, or is not gzip after all, is found here as well.
            true => Fault::failed(format!("{name} is damaged after line {line}: {error}")),
            false => Fault::failed(format!("cannot read {at}: {error}")),
        })?;
        match bytes.pop() {
            Some(b'\n') => {
                *line += 1;
                Ok(Some(bytes))
            }
            Some(_) => {
                Err(Fault::failed(format!("{at} has no end: the file was cut off, or is not an archive")))
            }
            None => Ok(None),
        }
    }
}

fn unwritten(path: &Path, error: &io::Error) -> Fault {
    Fault::failed(format!("cannot write {}: {error}", path.display()))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
