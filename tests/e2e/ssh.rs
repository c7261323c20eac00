//! Machines behind a real sshd, by `examples/plugins/ssh-runner`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support::{Eval, Space, case, example, missing, need, wait_until, wasm};

/// An sshd of this test's own on the loopback address, with keys that nobody else has.
struct Sshd {
    child: Child,
    port: u16,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SSHD: &str = "/usr/sbin/sshd";

fn sshd(space: &Space) -> Option<Sshd> {
    let keygen = Command::new("ssh-keygen").arg("-?").output().is_ok();
    if !Path::new(SSHD).exists() || !keygen {
        missing("SSHD", "there is no sshd, or no ssh-keygen");
        return None;
    }
    for key in ["host", "user"] {
        let output = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f", &space.text(key)])
            .output()
            .expect("ssh-keygen starts");
        assert!(output.status.success());
    }
    fs::copy(space.path("user.pub"), space.path("authorized")).expect("copied");
    fs::set_permissions(space.path("user"), fs::Permissions::from_mode(0o600)).expect("set");
    // Where Debian's sshd wants to be locked in; its package makes it at boot.
    let _ = fs::create_dir_all("/run/sshd");
    // A port that was free a moment ago may be another's by now: then there is another one.
    let started = (0..5).find_map(|_| started(space));
    Some(started.unwrap_or_else(|| panic!("sshd ended: {}", space.read("sshd.log"))))
}

/// On a port that is free now, unless it ended.
fn started(space: &Space) -> Option<Sshd> {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let known = format!("[127.0.0.1]:{port} {}", space.read("host.pub"));
    space.write("known_hosts", known);
    space.write(
        "sshd_config",
        format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
             PidFile none\nPasswordAuthentication no\n",
            space.text("host"),
            space.text("authorized")
        ),
    );
    let child = Command::new(SSHD)
        .args(["-D", "-f", &space.text("sshd_config"), "-E", &space.text("sshd.log")])
        .stdin(Stdio::null())
        .spawn()
        .expect("sshd starts");
    let mut sshd = Sshd { child, port };
    let mut ended = false;
    wait_until("sshd", || {
        ended = sshd.child.try_wait().expect("it is ours").is_some();
        ended || log_of(space).contains("Server listening on ")
    });
    (!ended).then_some(sshd)
}

/// What it says, which is nothing before it has begun. Who has its port may be another.
fn log_of(space: &Space) -> String {
    fs::read_to_string(space.path("sshd.log")).unwrap_or_default()
}

#[test]
fn shards_over_ssh_give_what_one_process_gives() {
    let space = Space::new();
    let sshd = need!(sshd(&space));
    let runner = need!(example("ssh-runner"));
    let user = Command::new("id").arg("-un").output().expect("id starts").stdout;
    let user = String::from_utf8(user).expect("UTF-8");
    Eval::new().client("cat").cases((0..6).map(|n| case(&n.to_string()))).write(&space);
    let options = [
        "host=127.0.0.1".to_owned(),
        format!("port={}", sshd.port),
        format!("user={}", user.trim_end()),
        format!("base={}", space.text("far")),
        format!("identity={}", space.text("user")),
        format!("known_hosts={}", space.text("known_hosts")),
    ];
    space.add(runner);
    let mut command = space.command(["run", "eval.yaml", "--runner", "example/runner/ssh", "--shards", "2"]);
    for option in &options {
        command.args(["--runner-option", option]);
    }
    let output = space.finish(command);
    let there = space.run();
    there.assert_whole();
    assert_eq!(there.trials(), 6, "{output}");
    assert_eq!(there.record()["collect"], "complete", "{output}");
    assert_eq!(fs::read_dir(space.path("far")).expect("lists").count(), 0);
    assert_eq!(space.mst(["machines", "list"]).exits(0).stdout, "");
}

#[test]
fn what_the_users_configuration_lends_is_lent_to_no_machine() {
    let runner = need!(example("ssh-runner"));
    if Command::new("ssh").arg("-V").output().is_err() {
        missing("SSHD", "there is no ssh");
        return;
    }
    let space = Space::new();
    space.write(
        "config",
        "Host *\nForwardAgent yes\nForwardX11 yes\nControlMaster auto\nControlPath /x\nUpdateHostKeys yes\n\
         StrictHostKeyChecking no\nLocalForward 1234 localhost:1\n",
    );
    let manifest = wasm::manifest(&fs::read(runner).expect("reads"));
    for exec in manifest["exec"].as_array().expect("templates") {
        let argv =
            exec["argv"].as_array().expect("an argv").iter().map(|word| word.as_str().expect("a word"));
        let options = argv.skip_while(|word| *word != "ssh").skip(1).take_while(|word| *word != "--");
        let options = options.filter(|word| !word.contains('{'));
        // `-G` says what would hold, and logs in nowhere.
        let output = Command::new("ssh")
            .args(["-F", &space.text("config"), "-G"])
            .args(options)
            .args(["--", "host.example"])
            .output()
            .expect("ssh starts");
        let said = String::from_utf8(output.stdout).expect("UTF-8");
        let of = |name: &str| {
            let line = said.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap_or_default().to_owned()
        };
        for name in ["forwardagent", "forwardx11", "updatehostkeys"] {
            assert!(["no", "false"].contains(&of(name).as_str()), "{name}: {}", exec["id"]);
        }
        assert_eq!((of("controlmaster"), of("controlpath")), ("false".to_owned(), String::new()), "{said}");
        assert!(["true", "yes"].contains(&of("stricthostkeychecking").as_str()), "{said}");
        let forwards = exec["id"] == "forward-port";
        assert_eq!(of("clearallforwardings"), if forwards { "no" } else { "yes" }, "{}", exec["id"]);
    }
}
