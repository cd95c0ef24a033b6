//! Hears of changes in the folders of the table's files, so that they need not wait for the timer.
//!
//! Folders are watched and never files: a watch on a file stays with the old one when another takes its name. In a
//! Kubernetes volume the name is a link through `..data`, and a change is another `..data`: the folder of the link and the
//! real folder behind it are both watched. Nothing depends on it: what is missed here is seen by the timer.

use nix::sys::inotify::AddWatchFlags;
use nix::sys::inotify::InitFlags;
use nix::sys::inotify::Inotify;
use nix::sys::inotify::WatchDescriptor;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use tokio::net::unix::pipe::Receiver;

/// How many links of a file are followed.
const LINKS_MOST: usize = 8;

/// See the module.
#[derive(Debug)]
pub struct Folders {
    inotify: Inotify,
    /// The same, as tokio hears of it: see `timer.rs`.
    heard: Receiver,
    watched: Mutex<BTreeMap<PathBuf, WatchDescriptor>>,
    /// What files of the table are called, besides `….yaml`: a folder may hold much that changes all the time.
    names: Mutex<BTreeSet<OsString>>,
}

impl Folders {
    /// Watches nothing yet. To be called inside a tokio runtime.
    ///
    /// # Errors
    /// The system has no more of such watchers (`fs.inotify.max_user_instances`), or of descriptors.
    pub fn new() -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        let heard = Receiver::from_owned_fd_unchecked(inotify.as_fd().try_clone_to_owned()?)?;
        Ok(Self { inotify, heard, watched: Mutex::default(), names: Mutex::default() })
    }

    /// Watches the folders of these files and folders as they are now, and no others. It blocks, as file systems do.
    pub fn follow(&self, paths: &[PathBuf]) {
        let (mut folders, mut names) = (BTreeSet::new(), BTreeSet::new());
        paths.iter().for_each(|path| trace(path, &mut folders, &mut names));
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        // Where it fails there is the timer.
        let add = |folder: &PathBuf| Some((folder.clone(), self.inotify.add_watch(folder, mask()).ok()?));
        let now: BTreeMap<PathBuf, WatchDescriptor> = folders.iter().filter_map(add).collect();
        let is_kept = |old: &WatchDescriptor| now.values().any(|kept| kept == old);
        for old in watched.values().filter(|old| !is_kept(old)) {
            let _ = self.inotify.rm_watch(*old); // it is gone already with its folder
        }
        *watched = now;
    }

    /// Waits until something happens to what may be a file of the table. Cancel safety: dropping the future loses nothing.
    ///
    /// # Errors
    /// The watcher cannot be read.
    pub async fn changed(&self) -> io::Result<()> {
        loop {
            self.heard.readable().await?;
            match self.heard.try_io(|| Ok(self.inotify.read_events()?)) {
                Ok(events) if events.iter().any(|event| self.concerns(event.name.as_deref())) => return Ok(()),
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a name in some folder may be a part of the table. None: the folder itself, or more than could be noted.
    fn concerns(&self, name: Option<&OsStr>) -> bool {
        let Some(name) = name else { return true };
        let is_version = name.as_bytes().starts_with(b"..");
        let is_yaml = Path::new(name).extension().is_some_and(|end| end == "yaml" || end == "yml");
        is_version || is_yaml || self.names.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }
}

fn mask() -> AddWatchFlags {
    AddWatchFlags::IN_ONLYDIR
        | AddWatchFlags::IN_CREATE
        | AddWatchFlags::IN_MOVE
        | AddWatchFlags::IN_DELETE
        | AddWatchFlags::IN_MODIFY
        | AddWatchFlags::IN_CLOSE_WRITE
        | AddWatchFlags::IN_ATTRIB
        | AddWatchFlags::IN_DELETE_SELF
        | AddWatchFlags::IN_MOVE_SELF
}

/// The folders on the way from a path to what it is, and the names that it has there.
fn trace(path: &Path, folders: &mut BTreeSet<PathBuf>, names: &mut BTreeSet<OsString>) {
    if path.is_dir() {
        folders.insert(path.to_path_buf());
        folders.extend(path.canonicalize());
        return;
    }
    let mut step = path.to_path_buf();
    for _ in 0..LINKS_MOST {
        let folder = match step.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        names.extend(step.file_name().map(OsStr::to_os_string));
        folders.extend(folder.canonicalize());
        let next = step.read_link().map(|link| folder.join(link));
        folders.insert(folder);
        match next {
            Ok(next) => step = next,
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    async fn hears(folders: &Folders) -> bool {
        tokio::time::timeout(Duration::from_secs(10), folders.changed()).await.is_ok_and(|changed| changed.is_ok())
    }

    async fn is_silent(folders: &Folders) -> bool {
        tokio::time::timeout(Duration::from_millis(50), folders.changed()).await.is_err()
    }

    #[tokio::test]
    async fn a_swap_of_the_link_behind_the_file_is_heard_and_so_is_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("..1")).unwrap();
        fs::write(at("..1/jobs.yaml"), "a").unwrap();
        symlink("..1", at("..data")).unwrap();
        symlink("..data/jobs.yaml", at("jobs.yaml")).unwrap();
        let (folders, paths) = (Folders::new().unwrap(), [at("jobs.yaml")]);
        folders.follow(&paths);
        assert!(is_silent(&folders).await);
        for version in ["..2", "..3"] {
            fs::create_dir(at(version)).unwrap();
            fs::write(at(version).join("jobs.yaml"), version).unwrap();
            symlink(version, at("..tmp")).unwrap();
            fs::rename(at("..tmp"), at("..data")).unwrap();
            assert!(hears(&folders).await);
            folders.follow(&paths);
            let watched: Vec<WatchDescriptor> = folders.watched.lock().unwrap().values().copied().collect();
            let distinct =
                watched.iter().filter(|one| watched.iter().filter(|other| other == one).count() == 1).count();
            assert_eq!((watched.len(), distinct), (3, 1), "the folder, and the one behind the link by both its names");
            while !is_silent(&folders).await {}
        }
        fs::write(at("..3/jobs.yaml"), "in the real folder").unwrap();
        assert!(hears(&folders).await);
    }

    #[tokio::test]
    async fn what_else_changes_in_the_folder_is_not_heard() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("table"), "a").unwrap();
        let folders = Folders::new().unwrap();
        folders.follow(&[folder.path().join("table")]);
        fs::write(folder.path().join("onecron.db"), "a").unwrap();
        assert!(is_silent(&folders).await);
        fs::write(folder.path().join("table"), "b").unwrap();
        assert!(hears(&folders).await);
    }
}
