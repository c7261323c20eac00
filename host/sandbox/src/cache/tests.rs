//! An entry that is not exactly what this user's mst wrote for this component and this engine is
//! a miss, and the component works all the same.

use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;

const ONE: &str = r#"(component (core module (func (export "f") (result i32) i32.const 1)))"#;
const TWO: &str = r#"(component (core module (func (export "f") (result i32) i32.const 2)))"#;

fn engine() -> Engine {
    Engine::default()
}

fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("WAT")
}

/// How the component of `text` came, by way of the cache in `dir`.
#[track_caller]
fn load(dir: &Path, text: &str) -> CacheEvent {
    load_for(&engine(), dir, text)
}

#[track_caller]
fn load_for(engine: &Engine, dir: &Path, text: &str) -> CacheEvent {
    let bytes = wat(text);
    let (component, event) =
        Cache::at(dir).component(engine, Digest::of(&bytes), &bytes).expect("the component compiles");
    // Whatever the cache held, what came is this component and no other.
    let again = Component::new(engine, &bytes).expect("it compiles").serialize().expect("serialized");
    assert_eq!(Digest::of(&component.serialize().expect("serialized")), Digest::of(&again));
    event
}

fn entry(dir: &Path, text: &str) -> PathBuf {
    dir.join(Label::of(&engine(), Digest::of(&wat(text))).file_name())
}

fn new_dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).expect("listed").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_miss_then_hits() {
    let dir = new_dir();
    let place = dir.path().join("a/b");
    assert_eq!(load(&place, ONE), CacheEvent::Miss);
    assert_eq!(load(&place, ONE), CacheEvent::Hit);
    assert_eq!(load(&place, TWO), CacheEvent::Miss);
    assert_eq!(load(&place, ONE), CacheEvent::Hit);
    assert_eq!(names(&place).len(), 3, "two entries and the key, nothing half-written");
    let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
    assert_eq!((mode(&place), mode(&place.join("key")), mode(&entry(&place, ONE))), (0o700, 0o600, 0o600));
}

#[test]
fn no_cache_is_off() {
    let bytes = wat(ONE);
    let (_, event) = Cache::off().component(&engine(), Digest::of(&bytes), &bytes).expect("compiles");
    assert_eq!(event, CacheEvent::Off);
}

#[test]
fn a_flipped_byte_is_a_miss_wherever_it_is() {
    let dir = new_dir();
    load(dir.path(), ONE);
    let path = entry(dir.path(), ONE);
    let good = fs::read(&path).expect("read");
    // Every byte of the MAC and of the code's head, and some of all the rest.
    let step = (good.len() / 100).max(1);
    let places = (0..160).chain((160..good.len()).step_by(step)).chain([good.len() - 1]);
    let mut tried = 0;
    for place in places {
        let mut bad = good.clone();
        bad[place] ^= 1 << (place % 8);
        fs::write(&path, bad).expect("written");
        assert_eq!(load(dir.path(), ONE), CacheEvent::Miss, "byte {place} of {}", good.len());
        tried += 1;
    }
    assert!(tried > 200);
    assert_eq!(load(dir.path(), ONE), CacheEvent::Hit, "the last miss mended it");
}

#[test]
fn a_cut_or_longer_entry_is_a_miss() {
    let dir = new_dir();
    load(dir.path(), ONE);
    let path = entry(dir.path(), ONE);
    let good = fs::read(&path).expect("read");
    for length in [0, 1, MAC_BYTES - 1, MAC_BYTES, MAC_BYTES + 1, good.len() / 2, good.len() - 1] {
        fs::write(&path, &good[..length]).expect("written");
        assert_eq!(load(dir.path(), ONE), CacheEvent::Miss, "{length} of {} bytes", good.len());
    }
    fs::write(&path, [&good[..], b"x"].concat()).expect("written");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Miss, "a byte more");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Hit);
}

#[test]
fn an_entry_under_another_key_is_a_miss() {
    let (ours, theirs) = (new_dir(), new_dir());
    load(ours.path(), ONE);
    load(theirs.path(), ONE);
    fs::copy(entry(theirs.path(), ONE), entry(ours.path(), ONE)).expect("copied");
    assert_eq!(load(ours.path(), ONE), CacheEvent::Miss);
    // And one that had no key at all: native code without a MAC, and with one of zeros.
    let code = Component::new(&engine(), wat(ONE)).expect("compiles").serialize().expect("serialized");
    for entry_bytes in [code.clone(), [&[0; MAC_BYTES][..], &code].concat()] {
        fs::write(entry(ours.path(), ONE), entry_bytes).expect("written");
        assert_eq!(load(ours.path(), ONE), CacheEvent::Miss);
    }
}

#[test]
fn another_components_entry_under_this_ones_name_is_a_miss() {
    let dir = new_dir();
    load(dir.path(), ONE);
    load(dir.path(), TWO);
    fs::rename(entry(dir.path(), TWO), entry(dir.path(), ONE)).expect("renamed");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Miss);
    assert_eq!(load(dir.path(), ONE), CacheEvent::Hit);
}

#[test]
fn another_engines_entry_is_a_miss() {
    let dir = new_dir();
    let mut config = wasmtime::Config::new();
    config.epoch_interruption(true);
    let other = Engine::new(&config).expect("an engine");
    load_for(&other, dir.path(), ONE);
    assert_eq!(load(dir.path(), ONE), CacheEvent::Miss, "it has a name of its own");
    let theirs = dir.path().join(Label::of(&other, Digest::of(&wat(ONE))).file_name());
    assert_ne!(theirs, entry(dir.path(), ONE));
    fs::copy(&theirs, entry(dir.path(), ONE)).expect("copied");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Miss, "and is none under ours");
    assert_eq!(load_for(&other, dir.path(), ONE), CacheEvent::Hit, "but is theirs still");
}

#[test]
fn what_is_no_plain_file_is_a_miss_and_not_waited_for() {
    let (dir, outside) = (new_dir(), new_dir());
    load(dir.path(), ONE);
    let path = entry(dir.path(), ONE);
    let good = outside.path().join("good");
    fs::rename(&path, &good).expect("moved");

    symlink(&good, &path).expect("linked");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Miss, "a link, to a good entry even");
    assert!(fs::symlink_metadata(&path).expect("is there").is_file(), "it was replaced, not followed");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Hit);

    let victim = outside.path().join("victim");
    fs::write(&victim, "precious").expect("written");
    fs::remove_file(&path).expect("removed");
    symlink(&victim, &path).expect("linked");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Miss);
    assert_eq!(fs::read(&victim).expect("read"), b"precious", "nothing was written through it");

    fs::remove_file(&path).expect("removed");
    symlink("/dev/zero", &path).expect("linked");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Miss);

    fs::remove_file(&path).expect("removed");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).expect("a pipe");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Miss, "a pipe that nobody writes to");

    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("made");
    fs::write(path.join("in the way"), "").expect("written");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Miss, "a directory");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Miss, "it stays in the way, and does no harm");
    assert_eq!(names(dir.path()).len(), 2, "no temporary file is left lying");
}

#[test]
fn a_key_that_is_not_this_users_alone_turns_the_cache_off() {
    for mode in [0o644, 0o640, 0o604, 0o601, 0o660] {
        let dir = new_dir();
        load(dir.path(), ONE);
        fs::set_permissions(dir.path().join("key"), fs::Permissions::from_mode(mode)).expect("set");
        assert_eq!(load(dir.path(), ONE), CacheEvent::Off, "mode {mode:o}");
    }
}

#[test]
fn a_key_that_is_none_turns_the_cache_off() {
    for size in [0, 1, KEY_BYTES - 1, KEY_BYTES + 1, 1 << 20] {
        let dir = new_dir();
        load(dir.path(), ONE);
        let key = dir.path().join("key");
        fs::write(&key, vec![7; size]).expect("written");
        assert_eq!(load(dir.path(), ONE), CacheEvent::Off, "{size} bytes");
        fs::remove_file(&key).expect("removed");
        assert_eq!(load(dir.path(), ONE), CacheEvent::Miss, "a new key: the old entries are foreign");
    }
    let (dir, elsewhere) = (new_dir(), new_dir());
    let real = elsewhere.path().join("key");
    fs::write(&real, [7; KEY_BYTES]).expect("written");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).expect("set");
    symlink(&real, dir.path().join("key")).expect("linked");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Off, "a link");

    let dir = new_dir();
    symlink(dir.path().join("nowhere"), dir.path().join("key")).expect("linked");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Off, "a link that leads nowhere");

    let dir = new_dir();
    fs::create_dir(dir.path().join("key")).expect("made");
    assert_eq!(load(dir.path(), ONE), CacheEvent::Off, "a directory");
}

#[test]
fn a_place_that_can_not_be_used_turns_the_cache_off() {
    let dir = new_dir();
    let file = dir.path().join("file");
    fs::write(&file, "").expect("written");
    assert_eq!(load(&file, ONE), CacheEvent::Off, "a file");
    assert_eq!(load(&file.join("below"), ONE), CacheEvent::Off, "below a file");
    // Where not even root may write.
    assert_eq!(load(Path::new("/proc/mst-no-such-place"), ONE), CacheEvent::Off);

    if rustix::process::geteuid().is_root() {
        println!("skipped: root may write to any directory");
        return;
    }
    let read_only = dir.path().join("read-only");
    fs::create_dir(&read_only).expect("made");
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o500)).expect("set");
    assert_eq!(load(&read_only, ONE), CacheEvent::Off, "there is no key and none can be made");
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o700)).expect("set");
    assert_eq!(load(&read_only, ONE), CacheEvent::Miss);
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o500)).expect("set");
    assert_eq!(load(&read_only, ONE), CacheEvent::Hit, "what is there is used");
    assert_eq!(load(&read_only, TWO), CacheEvent::Miss, "what is not is compiled, and not kept");
    fs::set_permissions(&read_only, fs::Permissions::from_mode(0o700)).expect("set");
}

#[test]
fn a_place_that_goes_away_costs_time_and_nothing_else() {
    let dir = new_dir();
    let place = dir.path().join("cache");
    let cache = Cache::at(&place);
    fs::remove_dir_all(&place).expect("removed");
    let bytes = wat(ONE);
    for _ in 0..2 {
        let (_, event) = cache.component(&engine(), Digest::of(&bytes), &bytes).expect("compiles");
        assert_eq!(event, CacheEvent::Miss);
    }
    assert!(!place.exists());
}

#[test]
fn many_at_a_time_write_whole_entries() {
    let dir = new_dir();
    // Nobody has made the key yet: all of them try to.
    let place = dir.path().join("cache");
    std::thread::scope(|scope| {
        for n in 0..8 {
            let place = &place;
            scope.spawn(move || {
                for round in 0..4 {
                    let text = if (n + round) % 2 == 0 { ONE } else { TWO };
                    assert_ne!(load(place, text), CacheEvent::Off);
                }
            });
        }
    });
    assert_eq!((load(&place, ONE), load(&place, TWO)), (CacheEvent::Hit, CacheEvent::Hit));
    assert_eq!(names(&place).len(), 3, "the key and two entries");
}

/// The same test in processes of their own, and while one of them damages what the others wrote.
#[test]
fn processes_share_a_cache() {
    const CHILD: &str = "MST_TEST_CACHE_CHILD";
    if let Some(place) = std::env::var_os(CHILD) {
        let place = PathBuf::from(place);
        for round in 0..12 {
            assert_ne!(load(&place, ONE), CacheEvent::Off);
            if round % 3 == 0 {
                // In place, as no cache writes: a reader may see any mixture.
                let _ = fs::write(entry(&place, ONE), vec![0xa5; 4096]);
            }
        }
        return;
    }
    let dir = new_dir();
    let place = dir.path().join("cache");
    let test = std::env::current_exe().expect("this test");
    let children: Vec<_> = (0..4)
        .map(|_| {
            std::process::Command::new(&test)
                .args(["--exact", "cache::tests::processes_share_a_cache", "--nocapture"])
                .env(CHILD, &place)
                .output_in_background()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    load(&place, ONE);
    assert_eq!(load(&place, ONE), CacheEvent::Hit);
}

trait InBackground {
    fn output_in_background(&mut self) -> std::process::Child;
}

impl InBackground for std::process::Command {
    fn output_in_background(&mut self) -> std::process::Child {
        use std::process::Stdio;
        self.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    }
}

#[test]
fn what_was_not_used_for_longest_makes_room_for_others() {
    let dir = new_dir();
    let three = ONE.replace("i32.const 1", "i32.const 3");
    assert_eq!([load(dir.path(), ONE), load(dir.path(), TWO)], [CacheEvent::Miss; 2]);
    let age = |path: &Path, hours: u64| {
        let file = File::options().write(true).open(path).expect("is there");
        let then = std::time::SystemTime::now() - std::time::Duration::from_secs(hours * 3600);
        file.set_modified(then).expect("set");
    };
    age(&entry(dir.path(), ONE), 30);
    age(&entry(dir.path(), TWO), 20);
    // It was made first, and used last.
    assert_eq!(load(dir.path(), ONE), CacheEvent::Hit);
    for (name, hours) in [(".tmpold", 25), (".tmpnew", 23), ("notes", 99)] {
        fs::write(dir.path().join(name), "").expect("written");
        age(&dir.path().join(name), hours);
    }
    symlink(dir.path().join("notes"), dir.path().join("other.cwasm")).expect("linked");
    let size = fs::metadata(entry(dir.path(), ONE)).expect("is there").len();
    let mut cache = Cache::at(dir.path());
    cache.open.as_mut().expect("it opens").room = 2 * size + size / 2;
    let bytes = wat(&three);
    let (_, event) = cache.component(&engine(), Digest::of(&bytes), &bytes).expect("it compiles");
    assert_eq!(event, CacheEvent::Miss);
    let entry_of = |text: &str| {
        let name = entry(dir.path(), text);
        name.file_name().expect("a name").to_string_lossy().into_owned()
    };
    let mut left = vec![entry_of(ONE), entry_of(&three)];
    left.extend([".tmpnew", "key", "notes", "other.cwasm"].map(str::to_owned));
    left.sort();
    assert_eq!(names(dir.path()), left);
    // One that alone is more than there is room for stays until the next.
    cache.open.as_mut().expect("it opens").room = 1;
    let bytes = wat(TWO);
    cache.component(&engine(), Digest::of(&bytes), &bytes).expect("it compiles");
    assert_eq!(load(dir.path(), TWO), CacheEvent::Hit);
    assert!(!entry(dir.path(), ONE).exists() && !entry(dir.path(), &three).exists());
}
