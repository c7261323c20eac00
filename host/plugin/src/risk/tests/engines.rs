//! What is told to a container engine, and what else stands beside it.

use super::*;

#[test]
fn only_what_certainly_bounds_a_container_is_said_to() {
    let options = "[options.properties.memory]\ntype='string'\npattern='^[0-9]+$'\n\
        [options.properties.args]\ntype='array'\n";
    let bounds = |argv: &str| {
        let text = texts(&format!("{HEAD}{options}{}", exec(argv, "")));
        let made = text.lines().find(|line| line.starts_with("makes")).expect(&text).to_owned();
        let known = "makes a container and runs in it what its image holds; opens that to the engine's machine by \
            no flag that is known";
        made.strip_prefix(known).expect(&made).trim_start_matches("; ").to_owned()
    };
    let none = "bounds no memory and no processors";
    for (flags, said) in [
        ("'--memory=1g', '--cpus=2', 'x'", ""),
        ("'--memory', '1g', '--cpuset-cpus', '0', 'x'", ""),
        ("'-m', '512m', '--cpu-quota', '50000', 'x'", ""),
        ("'-m1g', '-m=2g', '--cpus', '0.5', '{i:oci-ref}'", ""),
        // Flags of like names, of which none bounds anything.
        ("'--memory-swappiness=0', '--memory-reservation=1g', '--memory-swap=1g', 'x'", none),
        ("'--cpu-shares=2', '--cpu-period=1000', '-c', '512', '--cpuset-mems=0', 'x'", none),
        ("'--cpu-shares', '2', '--memory-swap', '1g', 'x'", none),
        // Behind the image it is another program's.
        ("'x', '--memory=1g', '--cpus=1'", none),
        ("'{i:oci-ref}', '-m', '1g'", none),
        ("'--name', '--memory=1g', 'x', '--cpus=1'", none),
        ("'--memory=0', '--cpus=0', 'x'", none),
        ("'--memory', '0', '--cpu-quota=-1', 'x'", none),
        ("'--memory=1g', '-m', '0', '--cpus=1', 'x'", "bounds no memory"),
        // What somebody else says.
        (
            "'--memory={m:quantity}', '[--cpus={c:uint(0..8)}]', 'x'",
            "bounds memory and processors only as the plugin says: `--memory`, `--cpus`",
        ),
        ("'--memory', '{m:quantity}', '--cpus=1', 'x'", "bounds memory only as the plugin says: `--memory`"),
        (
            "'{f:enum(--memory=1g|--init)}', '--cpus=1', 'x'",
            "bounds memory only as the plugin says: `--memory`",
        ),
        ("'--memory={f:enum(1g|0)}', '--cpus=1', 'x'", "bounds memory only as the plugin says: `--memory`"),
        (
            "'--memory=1g', '[--memory={m:quantity}]', '--cpus=1', 'x'",
            "bounds memory only as the plugin says: `--memory`",
        ),
        (
            "'[--memory={option(memory)}]', '--cpus=1', 'x'",
            "bounds memory only as your options say: `--memory`",
        ),
        (
            "'--memory={option(memory)}m', '--cpus=1', 'x'",
            "bounds memory only as your options say: `--memory`",
        ),
        (
            "'--memory', '{option(memory)}', '[--cpus={c:uint(0..8)}]', 'x'",
            "bounds memory only as your options say: `--memory`; bounds processors only as the plugin says: `--cpus`",
        ),
        (
            "'[--memory={option(memory)}]', 'x'",
            "bounds memory only as your options say: `--memory`; bounds no processors",
        ),
        // What may be another's flag, or stand behind the image.
        ("'--weird', '--memory=1g', 'x'", "whether it bounds memory is not certain; bounds no processors"),
        (
            "'{option(args)}', '-itm1g', '--cpus=1', 'x'",
            "whether it bounds memory and processors is not certain",
        ),
    ] {
        assert_eq!(bounds(&format!("['docker', 'run', {flags}]")), said, "{flags}");
    }
}
