//! Cases from the field: what users of such systems reported in public, each with the right result.
//!
//! `case_N` is case N of the collection the project keeps. Cases about package files are in
//! `files.rs`, about the command line in `run.rs`, and those that bash can judge are one-liners in
//! `shell/`. Cases about JavaScript, Python and terminals belong to the crates that will have them.

mod support;

use aospkg_format::{Package, PackageBuilder};
use kernel::{
    Capture, Child, Cred, Errno, EventQueue, ExitStatus, KillTarget, Limits, Signal, SpawnError,
    SpawnRequest, Stdio, Vm,
};
use sidecar::software::Software;
use sidecar::vm::{HostMount, VmBuilder};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::{builder, once, run, runtime, sh, text, vm};

/// The limit after which a test takes a thing for hung; far beyond what anything needs.
const HUNG: Duration = Duration::from_secs(60);

/// A VM with the common commands and one package more.
fn vm_with(package: PackageBuilder) -> Vm {
    vm_of(package.open().unwrap())
}

fn vm_of(package: Package) -> Vm {
    let cache = runtime().cache();
    let common = sidecar::npm::pinned::COMMON.parse().unwrap();
    let mut packages: Vec<Arc<Package>> = sidecar::npm::resolve(cache, &common, &mut |_| {})
        .unwrap()
        .iter()
        .map(|file| Arc::new(Package::open(file, Some(&cache.index())).unwrap()))
        .collect();
    packages.push(Arc::new(package));
    let software = Software::new(packages, &Default::default()).unwrap();
    VmBuilder::new(runtime())
        .software(&software)
        .cwd("/workspace")
        .build()
        .unwrap()
}

fn mounted(dir: &Path, read_only: bool) -> Vm {
    let mount = HostMount {
        host: dir.to_owned(),
        guest: b"/mnt/data".to_vec(),
        read_only,
        quota_bytes: None,
    };
    builder().mount(mount).build().unwrap()
}

fn spawn(vm: &Vm, words: &[&str], stdio: [Stdio; 3]) -> Child {
    let mut request = SpawnRequest::new(words[0], words[1..].iter().copied());
    request.stdio = stdio;
    vm.spawn(&request).unwrap()
}

fn errno(vm: &Vm, command: &str) -> Errno {
    match vm.spawn(&SpawnRequest::new(command, [""; 0])) {
        Err(error) => error.errno(),
        Ok(_) => panic!("{command} was started"),
    }
}

fn ended(child: &Child) -> ExitStatus {
    child.wait_timeout(HUNG).expect("it hangs")
}

/// Tries until it holds; for what happens on another thread.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + HUNG;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn case_1_and_2_commands_and_helpers_can_be_run_and_other_files_not() {
    let vm = vm_with(
        PackageBuilder::new("p", "1.0.0")
            .file(
                "cli.sh",
                0o755,
                "#!/bin/sh\n/opt/agentos/pkgs/p/current/libexec/helper\n",
            )
            .file("other.sh", 0o644, "#!/bin/sh\necho no\n")
            .file("libexec/helper", 0o755, "#!/bin/sh\necho helped\n")
            .command("hi", "cli.sh"),
    );
    assert_eq!(text(&run(&vm, &["hi"])), "helped\n");
    assert_eq!(
        errno(&vm, "/opt/agentos/pkgs/p/current/other.sh"),
        Errno::EACCES
    );
    assert_eq!(errno(&vm, "helper"), Errno::ENOENT);
    let modes = sh(
        &vm,
        "stat -L -c %a $(command -v hi) /opt/agentos/pkgs/p/1.0.0/other.sh",
    );
    assert_eq!(text(&modes), "755\n644\n");
}

#[test]
fn case_4_a_directory_without_the_search_bit_is_eacces() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("lib")).unwrap();
    let vm = vm();
    let script = "mkdir lib; echo x > lib/a; chmod 644 lib; cat lib/a; chmod 755 lib; cat lib/a";
    let output = sh(&vm, script);
    assert_eq!(text(&output), "x\n");
    assert!(
        String::from_utf8_lossy(&output.stderr.bytes)
            .to_lowercase()
            .contains("permission")
    );
}

#[test]
fn case_10_links_of_a_package_store_are_followed_inside_a_mount() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("node_modules/.pnpm/dep@1/node_modules/dep");
    fs::create_dir_all(&store).unwrap();
    fs::write(store.join("index.js"), "dep\n").unwrap();
    symlink(
        ".pnpm/dep@1/node_modules/dep",
        dir.path().join("node_modules/dep"),
    )
    .unwrap();
    symlink("/etc/hostname", dir.path().join("out")).unwrap();
    fs::write(dir.path().join("secret"), "host\n").unwrap();
    symlink(dir.path().join("secret"), dir.path().join("host")).unwrap();
    let vm = mounted(dir.path(), true);
    assert_eq!(
        text(&sh(&vm, "cat /mnt/data/node_modules/dep/index.js")),
        "dep\n"
    );
    // A link is text, walked in the guest: out of the mount it leads into the VM, not the host.
    assert_eq!(text(&sh(&vm, "cat /mnt/data/out")), "agentos\n");
    assert_eq!(
        text(&sh(&vm, "cat /mnt/data/host 2>/dev/null; echo $?")),
        "1\n"
    );
}

#[test]
fn case_11_current_is_a_real_entry() {
    let vm = vm_with(PackageBuilder::new("p", "1.0.0").file("package.json", 0o644, "{}\n"));
    let script = "cd /opt/agentos/pkgs/p; ls; ls current/; stat -c '%s %F' current; \
                  readlink current; test -e current/package.json && echo there; ls 1.0.0";
    let expected = "1.0.0\ncurrent\npackage.json\n5 symbolic link\n1.0.0\nthere\npackage.json\n";
    assert_eq!(text(&sh(&vm, script)), expected);
}

#[test]
fn case_11_a_switch_of_versions_is_one_rename() {
    let vm = vm_with(PackageBuilder::new("p", "1.0.0").file("v", 0o644, "one\n"));
    vm.mkdir_all(b"/opt/agentos/pkgs/p/2.0.0", 0o755).unwrap();
    vm.write_file(b"/opt/agentos/pkgs/p/2.0.0/v", b"two\n", 0o644)
        .unwrap();
    let root = SpawnRequest {
        cred: Some(Cred::root()),
        ..SpawnRequest::new(
            "sh",
            [
                "-c",
                "cd /opt/agentos/pkgs/p; cat current/v; ln -s 2.0.0 new; mv -T new current; cat current/v",
            ],
        )
    };
    let output = vm.output(&root, &Capture::default()).unwrap();
    assert_eq!(
        text(&output),
        "one\ntwo\n",
        "{}",
        String::from_utf8_lossy(&output.stderr.bytes)
    );
}

#[test]
fn case_13_a_package_cut_short_under_the_mapping_is_eio_for_the_guest_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.aospkg");
    let content = vec![b'x'; 1 << 20];
    PackageBuilder::new("p", "1.0.0")
        .file("late", 0o644, content)
        .write(&path)
        .unwrap();
    let vm = vm_of(Package::open(&path, None).unwrap());
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(4096)
        .unwrap();
    let output = sh(
        &vm,
        "wc -c /opt/agentos/pkgs/p/current/late; tail -c 1 /opt/agentos/pkgs/p/current/late >/dev/null; echo alive",
    );
    assert!(text(&output).ends_with("alive\n"));
    let said = String::from_utf8_lossy(&output.stderr.bytes).into_owned();
    assert!(!said.is_empty(), "the read went through");
    assert_eq!(once("echo other").0, "other\n");
}

#[test]
fn case_14_a_package_replaced_while_in_use_keeps_its_content() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p.aospkg");
    PackageBuilder::new("p", "1.0.0")
        .file("v", 0o644, "one\n")
        .write(&path)
        .unwrap();
    let vm = vm_of(Package::open(&path, None).unwrap());
    let other = dir.path().join("q.aospkg");
    PackageBuilder::new("p", "1.0.0")
        .file("v", 0o644, "two\n")
        .write(&other)
        .unwrap();
    fs::rename(&other, &path).unwrap();
    assert_eq!(text(&sh(&vm, "cat /opt/agentos/pkgs/p/current/v")), "one\n");
    let next = vm_of(Package::open(&path, None).unwrap());
    assert_eq!(
        text(&sh(&next, "cat /opt/agentos/pkgs/p/current/v")),
        "two\n"
    );
}

#[test]
fn case_20_a_large_directory_is_listed_whole_and_not_read_before() {
    let dir = tempfile::tempdir().unwrap();
    for n in 0..20_000 {
        fs::File::create(dir.path().join(format!("file-{n}"))).unwrap();
    }
    let vm = mounted(dir.path(), true);
    assert_eq!(text(&sh(&vm, "ls -U /mnt/data | wc -l")), "20000\n");
}

#[test]
fn case_25_an_interpreter_path_that_does_not_fit_is_enoexec() {
    let vm = vm();
    for (length, expected) in [
        (120, None),
        (253, None),
        (254, Some(Errno::ENOEXEC)),
        (300, Some(Errno::ENOEXEC)),
    ] {
        // A name has at most 255 bytes, so the path is made of two.
        let rest = length - "/workspace//sh".len() - 60;
        let dir = format!("/workspace/{}/{}", "d".repeat(59), "d".repeat(rest));
        vm.mkdir_all(dir.as_bytes(), 0o755).unwrap();
        vm.symlink(b"/bin/sh", format!("{dir}/sh").as_bytes())
            .unwrap();
        let script = format!("#!{dir}/sh\necho ran\n");
        vm.write_file(b"/workspace/script", script.as_bytes(), 0o755)
            .unwrap();
        match expected {
            None => assert_eq!(text(&run(&vm, &["/workspace/script"])), "ran\n", "{length}"),
            Some(expected) => assert_eq!(errno(&vm, "/workspace/script"), expected, "{length}"),
        }
    }
}

#[test]
fn case_26_a_script_line_has_one_argument() {
    // The published env has no -S, which would split it.
    let (output, _) =
        once("printf '#!/usr/bin/env sh -e\\n' > t; chmod +x t; ./t 2>err; echo $?; cat err");
    assert!(
        output.starts_with("127\n") && output.contains("sh -e"),
        "{output}"
    );
}

#[test]
fn case_32_a_program_needs_no_registration_and_no_extension() {
    let (output, _) = once(
        "mkdir -p ~/bin; cp $(command -v seq) ~/bin/tool; chmod +x ~/bin/tool; \
         PATH=$HOME/bin:$PATH; tool 2",
    );
    assert_eq!(output, "1\n2\n");
}

#[test]
fn case_34_empty_elements_of_the_path_are_the_working_directory() {
    let vm = vm();
    vm.write_file(b"/workspace/foo", b"#!/bin/sh\necho here\n", 0o755)
        .unwrap();
    let with = |path: &str, cwd: &str| {
        let mut request = SpawnRequest::new("foo", [""; 0]);
        request.env = vec![format!("PATH={path}").into_bytes()];
        request.cwd = Some(cwd.into());
        vm.output(&request, &Capture::default())
            .map(|output| text(&output))
            .map_err(|e| e.errno())
    };
    for path in ["", ":/bin", "/bin:", "/bin::/usr/bin"] {
        assert_eq!(
            with(path, "/workspace").as_deref(),
            Ok("here\n"),
            "{path:?}"
        );
    }
    assert_eq!(with("/bin:", "/"), Err(Errno::ENOENT));
}

#[test]
fn case_35_the_file_system_is_the_only_register_of_commands() {
    let vm = builder().cred(Cred::root()).build().unwrap();
    let script = "printf '#!/bin/sh\\necho mine\\n' > /usr/local/bin/ls; chmod +x /usr/local/bin/ls; \
                  hash -r; ls; rm /usr/local/bin/ls; hash -r; ls -d /; rm /opt/agentos/bin/ls; hash -r; ls 2>/dev/null; echo $?";
    assert_eq!(text(&sh(&vm, script)), "mine\n/\n127\n");
}

#[test]
fn case_37_foreign_programs_are_enoexec() {
    let vm = vm();
    for head in [
        &b"\x7fELF\x02\x01\x01"[..],
        b"MZ\x90\0",
        b"\xcf\xfa\xed\xfe\0",
        b"",
        b"\0as",
        b"text\n",
    ] {
        vm.write_file(b"/workspace/e", head, 0o755).unwrap();
        assert_eq!(errno(&vm, "/workspace/e"), Errno::ENOEXEC, "{head:?}");
    }
}

#[test]
fn case_41_files_are_made_relative_to_the_working_directory() {
    let (output, _) = once("mkdir r; cd r; touch a; mkdir b; cp a b/c; ls -A; ls b");
    assert_eq!(output, "a\nb\nc\n");
}

#[test]
fn case_47_a_command_is_one_argument_whatever_is_in_it() {
    assert_eq!(once("(cat <<E\nx\nE\n)").0, "x\n");
    assert_eq!(
        text(&run(&vm(), &["printf", "%s|", "a b", "$(x)", "'"])),
        "a b|$(x)|'|"
    );
}

#[test]
fn case_50_a_writer_whose_reader_left_ends() {
    let vm = vm();
    for script in [
        "yes | head -1",
        "seq 100000000 | head -1",
        "cat /etc/passwd | true",
    ] {
        let output = support::within(&vm, &["sh", "-c", script], HUNG);
        assert!(!output.timed_out, "{script}");
    }
    eventually("no writer is left", || vm.processes().len() == 1);
}

#[test]
fn case_58_and_59_the_everyday_tools_are_there_and_do_not_panic() {
    let (output, _) = once(
        "for t in id groups tty stty kill df who install chown sleep cp mktemp; do \
         command -v $t >/dev/null || echo miss $t; done; id -u; \
         for t in id groups tty df who; do $t >/dev/null 2>err; \
         case $(cat err) in *panicked*) echo $t panics;; esac; done",
    );
    assert_eq!(output, "1000\n");
}

#[test]
fn case_61_a_shell_that_starts_children_never_hangs() {
    let vm = vm();
    vm.mkdir_all(b"/workspace/w", 0o755).unwrap();
    for _ in 0..100 {
        let output = run(
            &vm,
            &["bash", "-c", "ls /workspace | wc -l; echo $(echo sub)"],
        );
        assert_eq!(text(&output), "1\nsub\n");
    }
}

#[test]
fn case_62_and_79_input_nobody_gave_is_at_its_end() {
    let vm = vm();
    for words in [
        &["cat"][..],
        &["wc", "-c"],
        &["sh", "-c", "read x; echo $?"],
        &["sort"],
    ] {
        let output = support::within(&vm, words, HUNG);
        assert!(!output.timed_out, "{words:?}");
    }
}

#[test]
fn case_65_busy_programs_die_of_signals() {
    let vm = vm();
    for signal in [Signal::TERM, Signal::KILL] {
        let child = spawn(
            &vm,
            &["sh", "-c", "while :; do :; done"],
            Default::default(),
        );
        std::thread::sleep(Duration::from_millis(50));
        child.kill(signal).unwrap();
        match ended(&child) {
            ExitStatus::Signal { signal: by, .. } => assert_eq!(by, signal),
            status => panic!("{status:?}"),
        }
    }
}

#[test]
fn case_67_input_written_late_arrives() {
    let vm = vm();
    let mut child = spawn(&vm, &["cat"], [Stdio::Pipe, Stdio::Pipe, Stdio::Null]);
    std::thread::sleep(Duration::from_millis(100));
    child.stdin.take().unwrap().write_all(b"a").unwrap();
    let mut buffer = [0; 8];
    let mut output = child.stdout.take().unwrap();
    assert_eq!(output.read(&mut buffer), Ok(1));
    assert_eq!(output.read(&mut buffer), Ok(0));
    assert_eq!(ended(&child), ExitStatus::Code(0));
}

#[test]
fn case_74_a_time_limit_ends_the_whole_tree_and_keeps_what_was_printed() {
    let vm = vm();
    let request = SpawnRequest::new("sh", ["-c", "echo partial; sleep 60 & sleep 60"]);
    let capture = Capture {
        timeout: Some(Duration::from_millis(500)),
        ..Capture::default()
    };
    let output = vm.output(&request, &capture).unwrap();
    assert!(output.timed_out);
    assert_eq!(text(&output), "partial\n");
    eventually("only pid 1 is left", || vm.processes().len() == 1);
}

#[test]
fn case_76_shells_of_one_machine_share_files_and_nothing_else() {
    let vm = vm();
    vm.mkdir_all(b"/workspace/a", 0o777).unwrap();
    vm.chmod(b"/workspace/a", 0o777).unwrap();
    let talk = |script: &str| text(&sh(&vm, script));
    assert_eq!(
        talk("cd a; x=1; export x; echo shared > f; pwd"),
        "/workspace/a\n"
    );
    assert_eq!(talk("pwd; echo [$x]; cat a/f"), "/workspace\n[]\nshared\n");
}

#[test]
fn case_77_the_end_of_a_process_and_the_end_of_its_output_are_two_things() {
    let vm = vm();
    let mut child = spawn(
        &vm,
        &["sh", "-c", "sleep 1000 & printf x"],
        [Stdio::Null, Stdio::Pipe, Stdio::Null],
    );
    assert_eq!(ended(&child), ExitStatus::Code(0));
    let mut output = child.stdout.take().unwrap();
    let mut buffer = [0; 8];
    assert_eq!(output.read(&mut buffer), Ok(1));
    assert_eq!(output.try_read(&mut buffer), Err(Errno::EAGAIN));
    vm.kill(KillTarget::All, Signal::KILL).unwrap();
    assert_eq!(output.read(&mut buffer), Ok(0));
}

#[test]
fn case_85_what_is_over_the_cap_is_counted_and_nothing_else_lost() {
    let vm = vm();
    let request = SpawnRequest::new("sh", ["-c", "seq 200000; echo ERR >&2; exit 3"]);
    let capture = Capture {
        stdout_bytes: Some(64 << 10),
        ..Capture::default()
    };
    let output = vm.output(&request, &capture).unwrap();
    assert_eq!(output.stdout.bytes.len(), 64 << 10);
    let whole: u64 = (1..=200_000u64)
        .map(|n| n.to_string().len() as u64 + 1)
        .sum();
    assert_eq!(output.stdout.dropped, whole - (64 << 10));
    assert!(output.stdout.truncated() && !output.stderr.truncated());
    assert_eq!(output.stderr.bytes, b"ERR\n");
    assert_eq!(output.status, ExitStatus::Code(3));
}

#[test]
fn case_86_an_endless_writer_does_not_fill_the_host() {
    let resident = || -> u64 {
        let text = fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let vm = vm();
    run(&vm, &["yes", "--version"]);
    let before = resident();
    let capture = Capture {
        stdout_bytes: Some(1 << 20),
        timeout: Some(Duration::from_millis(500)),
        ..Capture::default()
    };
    let output = vm
        .output(&SpawnRequest::new("yes", [""; 0]), &capture)
        .unwrap();
    assert!(output.timed_out && output.stdout.truncated());
    // Other tests of this program run beside; what `yes` wrote would be hundreds of megabytes.
    assert!(resident() < before + (200 << 20));
}

#[test]
fn case_88_proc_shows_the_guest_alone() {
    let (output, _) = once(
        "cat /proc/1/environ 2>/dev/null | wc -c; ls /proc | egrep -c x 2>/dev/null; \
         head -1 /proc/self/status; ls /proc/999999 2>/dev/null; echo $?; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | sort -u",
    );
    assert!(!output.contains("CARGO"), "{output}");
    assert!(output.contains("Name:"), "{output}");
}

#[test]
fn case_89_what_a_guest_started_can_be_seen_and_signalled_from_the_host() {
    let vm = vm();
    let parent = spawn(
        &vm,
        &["sh", "-c", "sleep 1000; echo $?"],
        Default::default(),
    );
    let find = || {
        let argv = |p: &kernel::ProcInfo| p.argv.first().cloned().unwrap_or_default();
        vm.processes()
            .into_iter()
            .find(|p| argv(p).ends_with(b"sleep"))
    };
    eventually("the child is there", || find().is_some());
    let child = find().unwrap();
    assert_eq!(child.ppid, parent.pid());
    vm.kill(KillTarget::Pid(child.pid), Signal::TERM).unwrap();
    assert_eq!(ended(&parent), ExitStatus::Code(0));
}

#[test]
fn case_106_the_overlay_s_corners() {
    let vm = vm_with(
        PackageBuilder::new("p", "1.0.0")
            .file("d/a", 0o644, "a\n")
            .file("e/x/y", 0o644, "y\n")
            .file("f", 0o644, "f\n"),
    );
    let script = "cd /opt/agentos/pkgs/p/1.0.0; rm -r d; mkdir d; ls -A d; mv e e2; cat e2/x/y; ls -d e 2>/dev/null; \
                  chmod 600 f; stat -c %a f; cat f; echo more >> f; cat f";
    let request = SpawnRequest {
        cred: Some(Cred::root()),
        ..SpawnRequest::new("sh", ["-c", script])
    };
    let output = vm.output(&request, &Capture::default()).unwrap();
    assert_eq!(
        text(&output),
        "y\n600\nf\nf\nmore\n",
        "{}",
        String::from_utf8_lossy(&output.stderr.bytes)
    );
}

#[test]
fn case_109_to_110_and_122_links_and_parents_across_mounts() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("x"), "x\n").unwrap();
    let vm = mounted(dir.path(), false);
    let script = "mkdir w; echo z > w/z; ln -s /mnt/data/x w/y; cat w/y; \
                  ln -s ../../workspace/w/z /mnt/data/w; cat /mnt/data/w; cd /mnt/data/..; pwd -P";
    assert_eq!(text(&sh(&vm, script)), "x\nz\n/mnt\n");
}

#[test]
fn case_115_a_file_replaced_on_the_host_is_old_for_who_has_it_open_and_new_for_others() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), "old\n").unwrap();
    let vm = mounted(dir.path(), true);
    let mut child = spawn(
        &vm,
        &[
            "sh",
            "-c",
            "exec 3< /mnt/data/f; echo open; read x; cat <&3; cat /mnt/data/f",
        ],
        [Stdio::Pipe, Stdio::Pipe, Stdio::Null],
    );
    let mut output = child.stdout.take().unwrap();
    let mut buffer = [0; 64];
    assert_eq!(output.read(&mut buffer), Ok(5));
    fs::write(dir.path().join("g"), "new\n").unwrap();
    fs::rename(dir.path().join("g"), dir.path().join("f")).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut all = Vec::new();
    while let Ok(n) = output.read(&mut buffer) {
        if n == 0 {
            break;
        }
        all.extend_from_slice(&buffer[..n]);
    }
    assert_eq!(String::from_utf8_lossy(&all), "old\nnew\n");
}

#[test]
fn case_119_a_trailing_slash_leads_nowhere_new() {
    let (output, _) = once(
        "echo x > f; ln -s f s; cat s/ 2>/dev/null; echo $?; mkdir s/ 2>/dev/null; echo $?; \
         ln -s /host/secret h; cat h/ 2>/dev/null; echo $?",
    );
    assert_eq!(output, "1\n1\n1\n");
}

#[test]
fn case_157_a_guest_that_wants_too_much_memory_meets_its_limit() {
    let mut limits = Limits::default();
    limits.set_text("process.memory_bytes=64M").unwrap();
    let vm = builder().limits(limits).build().unwrap();
    let output = support::within(&vm, &["sh", "-c", "echo {1..100000000} | head -c1"], HUNG);
    assert!(!output.timed_out);
    assert_eq!(text(&sh(&vm, "echo fine")), "fine\n");
}

#[test]
fn case_164_a_fork_bomb_stays_in_its_machine() {
    let mut limits = Limits::default();
    limits.set_text("processes=40").unwrap();
    let events = Arc::new(EventQueue::new(64));
    let vm = builder()
        .limits(limits)
        .events(events.clone())
        .build()
        .unwrap();
    vm.write_file(
        b"/workspace/bomb",
        b"#!/bin/sh\n/workspace/bomb & /workspace/bomb &\nsleep 100\n",
        0o755,
    )
    .unwrap();
    let _bomb = spawn(&vm, &["/workspace/bomb"], Default::default());
    eventually("the limit is reached", || {
        std::iter::from_fn(|| events.pop()).any(|event| {
            matches!(
                event,
                kernel::Event::LimitReached {
                    name: "processes",
                    ..
                }
            )
        })
    });
    match vm.spawn(&SpawnRequest::new("true", [""; 0])) {
        Err(SpawnError::Program { reason, .. }) => assert_eq!(reason.errno(), Errno::EAGAIN),
        // One of the bomb's may just have ended.
        Ok(_) => {}
        Err(error) => panic!("{error}"),
    }
    assert_eq!(once("echo unharmed").0, "unharmed\n");
    vm.dispose().unwrap();
}

#[test]
fn case_175_machines_come_and_go_without_a_trace() {
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    once("true");
    let before = descriptors();
    for _ in 0..200 {
        let vm = vm();
        assert_eq!(run(&vm, &["true"]).status, ExitStatus::Code(0));
        vm.dispose().unwrap();
    }
    // Other tests of this program hold some of their own meanwhile.
    assert!(descriptors() < before + 100);
}

#[test]
fn many_sleeping_and_many_working_processes_all_finish() {
    let vm = vm();
    let sleeping: Vec<_> = (0..200)
        .map(|_| spawn(&vm, &["sleep", "1"], Default::default()))
        .collect();
    let working: Vec<_> = (0..50)
        .map(|_| {
            spawn(
                &vm,
                &["sh", "-c", "seq 1000 | sort -n | tail -1 >/dev/null"],
                Default::default(),
            )
        })
        .collect();
    for child in working.iter().chain(&sleeping) {
        assert_eq!(ended(child), ExitStatus::Code(0));
    }
}
