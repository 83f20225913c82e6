//! What we write opens in the published runtime.
//!
//! The runtime is large, so it is not fetched here: `cargo xtask bench --peer` keeps an installation
//! of `@rivet-dev/agentos-core` in the cache directory, and `$AOS_PEER_DIR` names another one. Where
//! there is none, this test says so and ends.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use aospkg_format::{Package, PackageBuilder, add_index};

mod support;

const SCRIPT: &str = r#"
import { AgentOs } from "@rivet-dev/agentos-core";
const [built, indexed] = process.argv.slice(2);
const vm = await AgentOs.create({
    defaultSoftware: false,
    software: [{ packagePath: built }, { packagePath: indexed }],
});
const out = async (command) => (await vm.exec(command)).stdout;
const root = "/opt/agentos/pkgs/peer-test/1.0.0";
const seen = {
    own: await out("printf 'a\\n' | our-sed s/a/ok/"),
    published: await out("printf 'ok\\n' | cat"),
    small: await out(`cat ${root}/link`),
    large: await out(`wc -c < ${root}/data/large`),
    last: await out(`tail -c 5 ${root}/data/large`),
};
await vm.dispose();
console.log("SEEN " + JSON.stringify(seen));
process.exit(0);
"#;

fn installation() -> Option<PathBuf> {
    let dir = env::var_os("AOS_PEER_DIR").map_or_else(
        || support::npm_cache().parent().map(|dir| dir.join("peer")),
        |dir| Some(dir.into()),
    )?;
    dir.join("node_modules/@rivet-dev/agentos-core")
        .exists()
        .then_some(dir)
}

#[test]
#[expect(clippy::print_stdout, reason = "says why nothing was tested")]
fn our_packages_open_in_the_published_runtime() {
    let Some(installation) = installation() else {
        println!("no installation of the published runtime, nothing was tested");
        return;
    };
    let dir = tempfile::tempdir_in(&installation).unwrap();
    let indexed = dir.path().join("coreutils.aospkg");
    add_index(&support::published("coreutils", "0.3.4"), &indexed).unwrap();
    let sed = Package::open(support::published("sed", "0.3.4"), None).unwrap();
    let module = sed.lookup_path(b"bin/sed").unwrap().unwrap();
    let module = sed.with_content(module, <[u8]>::to_vec).unwrap();
    let built = dir.path().join("built.aospkg");
    let large = [vec![b'x'; 100_000], b"last\n".to_vec()].concat();
    PackageBuilder::new("peer-test", "1.0.0")
        .file("bin/our-sed", 0o755, module)
        .file("data/small", 0o644, "small\n")
        .file("data/large", 0o644, large)
        .symlink("link", "data/small")
        .command("our-sed", "bin/our-sed")
        .write(&built)
        .unwrap();
    let script = dir.path().join("test.mjs");
    fs::write(&script, SCRIPT).unwrap();
    let output = Command::new("node")
        .arg(&script)
        .args([&built, &indexed])
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let seen = stdout.lines().find_map(|line| line.strip_prefix("SEEN "));
    let seen = seen.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let seen: serde_json::Value = serde_json::from_str(seen).unwrap();
    assert_eq!(seen["own"], "ok\n");
    assert_eq!(seen["published"], "ok\n");
    assert_eq!(seen["small"], "small\n");
    assert_eq!(seen["large"].as_str().map(str::trim), Some("100005"));
    assert_eq!(seen["last"], "last\n");
}
