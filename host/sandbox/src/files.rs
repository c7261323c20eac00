//! `wasi:filesystem` with the broker before it: whatever names a path is decided on and has a line in
//! the audit. What is done with a file that is open is counted, and how many bytes went through it is said:
//! its opening was decided on, and with it what may be changed.
//!
//! A refusal ends the guest's call, as every refusal does. Below this, wasmtime holds every path to its
//! directory again, symlinks included. It says no more than that something was not permitted: whether a
//! link led out, which is a refusal too, is then looked for here.

use std::collections::HashMap;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;

use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::{
    Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode,
    Filesize, Host, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags,
    PathFlags,
};
use wasmtime_wasi::p2::pipe::{ClosedInputStream, SinkOutputStream};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use crate::audit::Pass;
use crate::broker::{Ambient, Broker, Call};
use crate::guest::Preopen;

mod place;
mod traffic;

use place::{Links, Place, a_link_leads_out, leads_out};
use traffic::{Reading, Traffic, Writing};

/// Where the directories and files are that a guest has open, by the number that it knows them by.
pub(crate) struct Opened {
    places: HashMap<u32, Place>,
    traffic: HashMap<u32, Arc<Traffic>>,
    /// Where the directories are on this machine, by their names in the manifest.
    roots: HashMap<String, PathBuf>,
}

impl Opened {
    pub(crate) fn nothing_yet(dirs: &[Preopen]) -> Opened {
        let roots = dirs.iter().map(|dir| (dir.name.clone(), dir.path.clone())).collect();
        Opened { places: HashMap::new(), traffic: HashMap::new(), roots }
    }
}

/// The interface, for one call.
pub(crate) struct Files<'a> {
    pub(crate) wasi: WasiFilesystemCtxView<'a>,
    pub(crate) broker: &'a Broker,
    pub(crate) opened: &'a mut Opened,
}

/// Names [`Files`] to the linker.
pub(crate) struct HasFiles;

impl HasData for HasFiles {
    type Data<'a> = Files<'a>;
}

type Fd = Resource<Descriptor>;

// Whoever follows a link later, mst and the user among them, may not look where it leads.
const NO_LINKS: &str = "no plugin makes links, moves them or gives them another name";
const LED_OUT: &str =
    "a link on the path leads out of the directory that it was given, or begins at the root";
const SPECIAL: &str = "what stands there is neither a file nor a directory";

/// A path that was decided on.
struct Decided {
    function: &'static str,
    pass: Pass,
    place: Place,
    links: Links,
}

/// Whether it is what a plugin opens in no directory, whatever it was granted.
fn is_special(kind: DescriptorType) -> bool {
    !matches!(kind, DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink)
}

/// What came of a call, in a word.
fn name_of<T>(result: &FsResult<T>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(error) => error.downcast_ref().map_or("failed", |code: &ErrorCode| code.name()),
    }
}

impl Files<'_> {
    /// Has the broker decide on a path.
    fn at(
        &self,
        function: &'static str,
        fd: &Fd,
        path: &str,
        links: Links,
        writes: bool,
    ) -> FsResult<Decided> {
        let nowhere = Place { dir: String::new(), path: String::new() };
        let from = self.opened.places.get(&fd.rep()).unwrap_or(&nowhere);
        let place = from.join(path);
        let long = place.is_none();
        let place = place.unwrap_or_else(|| Place { dir: from.dir.clone(), path: "(too long)".to_owned() });
        let leads_out = path.starts_with('/') || leads_out(&place.path);
        let call = Call::Dir { function, dir: &place.dir, path: &place.path, leads_out, writes };
        let mut pass = self.broker.pass(call).map_err(FsError::trap)?;
        if long {
            pass.end("name-too-long", 0, 0);
            return Err(ErrorCode::NameTooLong.into());
        }
        if writes {
            pass.leave().map_err(FsError::trap)?;
        }
        // A name with a slash behind it is that of a directory, for which a link is followed.
        let links = if matches!(path.rsplit('/').next(), Some("" | ".")) { Links::Followed } else { links };
        Ok(Decided { function, pass, place, links })
    }

    /// Ends a call with what came of it.
    async fn end<T: Send>(&mut self, decided: Decided, result: FsResult<T>) -> FsResult<T> {
        let decided = self.refuse_what_led_out(decided, name_of(&result)).await?;
        decided.pass.end(name_of(&result), 0, 0);
        result
    }

    /// Ends a call about two paths.
    async fn end_both<T: Send>(&mut self, from: Decided, to: Decided, result: FsResult<T>) -> FsResult<T> {
        let from = self.refuse_what_led_out(from, name_of(&result)).await?;
        from.pass.end(name_of(&result), 0, 0);
        self.end(to, result).await
    }

    /// Refuses a path that turned out to lead out of its directory.
    async fn refuse_what_led_out(&mut self, decided: Decided, result: &'static str) -> FsResult<Decided> {
        let Decided { function, pass, place, links } = decided;
        let led_out = result == ErrorCode::NotPermitted.name() && self.a_link_leads_out(&place, links).await;
        if led_out {
            return Err(self.refuse(Decided { function, pass, place, links }, LED_OUT));
        }
        Ok(Decided { function, pass, place, links })
    }

    /// Refuses a call that would give a link another place or another name.
    async fn no_link(
        &mut self,
        fd: &Fd,
        path: &str,
        from: Decided,
        to: Decided,
    ) -> FsResult<(Decided, Decided)> {
        let borrowed = Resource::new_borrow(fd.rep());
        let there = self.wasi.stat_at(borrowed, PathFlags::empty(), path.to_owned()).await;
        if there.is_ok_and(|there| there.type_ == DescriptorType::SymbolicLink) {
            to.pass.end("not done", 0, 0);
            return Err(self.refuse(from, NO_LINKS));
        }
        Ok((from, to))
    }

    /// Ends the guest's call for what turned out about a path that was admitted.
    fn refuse(&self, Decided { pass, place, function, .. }: Decided, rule: &str) -> FsError {
        let (dir, path) = (&place.dir, &place.path);
        let call = Call::Dir { function, dir, path, leads_out: false, writes: false };
        FsError::trap(self.broker.refuse_late(pass, call, rule.to_owned()))
    }

    async fn a_link_leads_out(&mut self, place: &Place, links: Links) -> bool {
        let Some(root) = self.opened.roots.get(&place.dir).cloned() else { return false };
        let path = if place.path.is_empty() { ".".to_owned() } else { place.path.clone() };
        tokio::task::spawn_blocking(move || a_link_leads_out(&root, &path, links)).await.unwrap_or(false)
    }

    /// Has the broker decide on a change of what is open. Where its directory may be written, that was
    /// decided on when it was opened.
    fn change(&self, function: &'static str, fd: &Fd) -> FsResult<()> {
        let place = self.opened.places.get(&fd.rep());
        if place.is_some_and(|place| self.broker.may_write(&place.dir)) {
            self.open_file();
            return Ok(());
        }
        self.at(function, fd, "", Links::Followed, true).map(|decided| decided.pass.ok())
    }

    /// From here on the audit has what goes through this file.
    fn follow(&mut self, fd: &Fd, place: &Place, writes: bool) -> FsResult<()> {
        let call = Call::Dir {
            function: "descriptor.use",
            dir: &place.dir,
            path: &place.path,
            leads_out: false,
            writes,
        };
        let line = self.broker.pass(call).map_err(FsError::trap)?;
        self.opened.traffic.insert(fd.rep(), Traffic::new(line));
        Ok(())
    }

    fn traffic(&self, fd: &Fd) -> Option<Arc<Traffic>> {
        self.opened.traffic.get(&fd.rep()).cloned()
    }

    fn counted(
        &mut self,
        traffic: Option<Arc<Traffic>>,
        made: FsResult<Resource<DynOutputStream>>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let made = made?;
        if let Some(traffic) = traffic {
            let slot = self.wasi.table.get_mut(&made)?;
            let stream = mem::replace(slot, Box::new(SinkOutputStream));
            *slot = Box::new(Writing { stream, traffic });
        }
        Ok(made)
    }

    /// Counts a call about something that is open.
    fn open_file(&self) {
        // Never refused.
        let _ = self.broker.pass(Call::Ambient(Ambient::OpenFile));
    }
}

impl preopens::Host for Files<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Fd, String)>> {
        let _ = self.broker.pass(Call::Ambient(Ambient::Preopens))?;
        let directories = self.wasi.get_directories()?;
        for (fd, path) in &directories {
            let dir = path.trim_start_matches('/').to_owned();
            self.opened.places.insert(fd.rep(), Place { dir, path: String::new() });
        }
        Ok(directories)
    }
}

impl Host for Files<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.wasi.convert_error_code(error)
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        self.open_file();
        self.wasi.filesystem_error_code(error)
    }
}

impl HostDescriptor for Files<'_> {
    async fn open_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        let writes = open.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE)
            || flags.contains(DescriptorFlags::WRITE);
        let decided = self.at("descriptor.open-at", &fd, &path, path_flags.into(), writes)?;
        // To open a pipe is to wait for whoever opens its other end, and a device does what it likes.
        let there = self.wasi.stat_at(Resource::new_borrow(fd.rep()), path_flags, path.clone()).await;
        if there.is_ok_and(|there| is_special(there.type_)) {
            return Err(self.refuse(decided, SPECIAL));
        }
        let made = self.wasi.open_at(fd, path_flags, path, open, flags).await;
        if let Ok(fd) = &made {
            self.opened.places.insert(fd.rep(), decided.place.clone());
            if !matches!(self.wasi.table.get(fd), Ok(Descriptor::Dir(_))) {
                self.follow(fd, &decided.place, writes)?;
            }
        }
        self.end(decided, made).await
    }

    async fn create_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let decided = self.at("descriptor.create-directory-at", &fd, &path, Links::Taken, true)?;
        let done = self.wasi.create_directory_at(fd, path).await;
        self.end(decided, done).await
    }

    async fn stat_at(&mut self, fd: Fd, flags: PathFlags, path: String) -> FsResult<DescriptorStat> {
        let decided = self.at("descriptor.stat-at", &fd, &path, flags.into(), false)?;
        let done = self.wasi.stat_at(fd, flags, path).await;
        self.end(decided, done).await
    }

    async fn set_times_at(
        &mut self,
        fd: Fd,
        flags: PathFlags,
        path: String,
        accessed: NewTimestamp,
        modified: NewTimestamp,
    ) -> FsResult<()> {
        let decided = self.at("descriptor.set-times-at", &fd, &path, flags.into(), true)?;
        let done = self.wasi.set_times_at(fd, flags, path, accessed, modified).await;
        self.end(decided, done).await
    }

    async fn link_at(
        &mut self,
        fd: Fd,
        flags: PathFlags,
        old: String,
        new_fd: Fd,
        new: String,
    ) -> FsResult<()> {
        let from = self.at("descriptor.link-at", &fd, &old, flags.into(), true)?;
        let to = self.at("descriptor.link-at", &new_fd, &new, Links::Taken, true)?;
        let (from, to) = self.no_link(&fd, &old, from, to).await?;
        let done = self.wasi.link_at(fd, flags, old, new_fd, new).await;
        self.end_both(from, to, done).await
    }

    async fn readlink_at(&mut self, fd: Fd, path: String) -> FsResult<String> {
        let decided = self.at("descriptor.readlink-at", &fd, &path, Links::Taken, false)?;
        let done = self.wasi.readlink_at(fd, path).await;
        self.end(decided, done).await
    }

    async fn remove_directory_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let decided = self.at("descriptor.remove-directory-at", &fd, &path, Links::Taken, true)?;
        let done = self.wasi.remove_directory_at(fd, path).await;
        self.end(decided, done).await
    }

    async fn rename_at(&mut self, fd: Fd, old: String, new_fd: Fd, new: String) -> FsResult<()> {
        let from = self.at("descriptor.rename-at", &fd, &old, Links::Taken, true)?;
        let to = self.at("descriptor.rename-at", &new_fd, &new, Links::Taken, true)?;
        let (from, to) = self.no_link(&fd, &old, from, to).await?;
        let done = self.wasi.rename_at(fd, old, new_fd, new).await;
        self.end_both(from, to, done).await
    }

    async fn symlink_at(&mut self, fd: Fd, _: String, path: String) -> FsResult<()> {
        let decided = self.at("descriptor.symlink-at", &fd, &path, Links::Taken, true)?;
        Err(self.refuse(decided, NO_LINKS))
    }

    async fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        let decided = self.at("descriptor.unlink-file-at", &fd, &path, Links::Taken, true)?;
        let done = self.wasi.unlink_file_at(fd, path).await;
        self.end(decided, done).await
    }

    async fn metadata_hash_at(
        &mut self,
        fd: Fd,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        let decided = self.at("descriptor.metadata-hash-at", &fd, &path, flags.into(), false)?;
        let done = self.wasi.metadata_hash_at(fd, flags, path).await;
        self.end(decided, done).await
    }

    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<DirectoryEntryStream>> {
        let decided = self.at("descriptor.read-directory", &fd, "", Links::Followed, false)?;
        let done = self.wasi.read_directory(fd).await;
        self.end(decided, done).await
    }

    async fn advise(&mut self, fd: Fd, offset: Filesize, length: Filesize, advice: Advice) -> FsResult<()> {
        self.open_file();
        self.wasi.advise(fd, offset, length, advice).await
    }

    async fn sync_data(&mut self, fd: Fd) -> FsResult<()> {
        self.open_file();
        self.wasi.sync_data(fd).await
    }

    async fn get_flags(&mut self, fd: Fd) -> FsResult<DescriptorFlags> {
        self.open_file();
        self.wasi.get_flags(fd).await
    }

    async fn get_type(&mut self, fd: Fd) -> FsResult<DescriptorType> {
        self.open_file();
        self.wasi.get_type(fd).await
    }

    async fn set_size(&mut self, fd: Fd, size: Filesize) -> FsResult<()> {
        self.change("descriptor.set-size", &fd)?;
        self.wasi.set_size(fd, size).await
    }

    async fn set_times(&mut self, fd: Fd, accessed: NewTimestamp, modified: NewTimestamp) -> FsResult<()> {
        let decided = self.at("descriptor.set-times", &fd, "", Links::Followed, true)?;
        let done = self.wasi.set_times(fd, accessed, modified).await;
        self.end(decided, done).await
    }

    async fn read(&mut self, fd: Fd, length: Filesize, offset: Filesize) -> FsResult<(Vec<u8>, bool)> {
        self.open_file();
        let traffic = self.traffic(&fd);
        let read = self.wasi.read(fd, length, offset).await?;
        traffic.iter().for_each(|traffic| traffic.read(read.0.len()));
        Ok(read)
    }

    async fn write(&mut self, fd: Fd, bytes: Vec<u8>, offset: Filesize) -> FsResult<Filesize> {
        self.change("descriptor.write", &fd)?;
        let traffic = self.traffic(&fd);
        let written = self.wasi.write(fd, bytes, offset).await?;
        traffic.iter().for_each(|traffic| traffic.written(written));
        Ok(written)
    }

    async fn sync(&mut self, fd: Fd) -> FsResult<()> {
        self.open_file();
        self.wasi.sync(fd).await
    }

    async fn stat(&mut self, fd: Fd) -> FsResult<DescriptorStat> {
        self.open_file();
        self.wasi.stat(fd).await
    }

    fn read_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynInputStream>> {
        self.open_file();
        let traffic = self.traffic(&fd);
        let made = self.wasi.read_via_stream(fd, offset)?;
        if let Some(traffic) = traffic {
            let slot = self.wasi.table.get_mut(&made)?;
            let stream = mem::replace(slot, Box::new(ClosedInputStream));
            *slot = Box::new(Reading { stream, traffic });
        }
        Ok(made)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynOutputStream>> {
        self.change("descriptor.write-via-stream", &fd)?;
        let traffic = self.traffic(&fd);
        let made = self.wasi.write_via_stream(fd, offset);
        self.counted(traffic, made)
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        self.change("descriptor.append-via-stream", &fd)?;
        let traffic = self.traffic(&fd);
        let made = self.wasi.append_via_stream(fd);
        self.counted(traffic, made)
    }

    async fn is_same_object(&mut self, a: Fd, b: Fd) -> wasmtime::Result<bool> {
        self.open_file();
        self.wasi.is_same_object(a, b).await
    }

    async fn metadata_hash(&mut self, fd: Fd) -> FsResult<MetadataHashValue> {
        self.open_file();
        self.wasi.metadata_hash(fd).await
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        let _ = self.broker.pass(Call::Ambient(Ambient::Drop))?;
        self.opened.places.remove(&fd.rep());
        self.opened.traffic.remove(&fd.rep());
        HostDescriptor::drop(&mut self.wasi, fd)
    }
}

impl HostDirectoryEntryStream for Files<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        self.open_file();
        self.wasi.read_directory_entry(stream).await
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        let _ = self.broker.pass(Call::Ambient(Ambient::Drop))?;
        HostDirectoryEntryStream::drop(&mut self.wasi, stream)
    }
}
