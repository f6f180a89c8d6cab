//! A machine by itself, judged by what `ps`, `cat` and the host see.

use super::*;
use crate::install::Kubernetes;

fn machine(lab: &Lab) -> Machine {
    let programs = Kubernetes::find().unwrap().programs();
    let machine = Machine::new(lab, "m", &programs, "192.0.2.53".to_owned()).unwrap();
    machine.boot(machine.new_netns().unwrap()).unwrap();
    machine
}

fn said(machine: &Machine, command: &[&str]) -> String {
    machine.run(command).unwrap().trim().to_owned()
}

#[test]
fn a_machine_has_a_disk_that_survives_and_a_memory_that_does_not() {
    let lab = Lab::new().unwrap();
    let machine = machine(&lab);
    assert_eq!(said(&machine, &["hostname"]), "m");
    assert_eq!(said(&machine, &["cat", "/etc/resolv.conf"]), "nameserver 192.0.2.53");
    assert_eq!(said(&machine, &["ls", "/sys/class/net"]), "lo");
    let boot_id = said(&machine, &["cat", "/proc/sys/kernel/random/boot_id"]);
    let mark = format!("/etc/{}", lab.id());
    for file in [&mark, "/var/lib/cni/mark", "/run/mark"] {
        machine.write(file, "here").unwrap();
    }
    assert!(!Path::new(&mark).exists(), "it is the machine's, not the host's");

    machine.power_off().unwrap();
    assert!(matches!(machine.run(&["true"]), Err(MachineError::Off { .. })));
    machine.boot(machine.new_netns().unwrap()).unwrap();
    assert_eq!(said(&machine, &["cat", &mark, "/var/lib/cni/mark"]), "herehere");
    assert!(machine.run(&["cat", "/run/mark"]).is_err());
    assert_ne!(said(&machine, &["cat", "/proc/sys/kernel/random/boot_id"]), boot_id);
}

#[test]
fn daemons_are_killed_stopped_started_and_end_with_their_machine() {
    let lab = Lab::new().unwrap();
    let machine = machine(&lab);
    let wait_for_start = |number: usize| {
        wait_until("a start", PATIENCE, || match machine.log("sleeper").lines().count() {
            lines if lines == number => Ok(()),
            lines => Err(lines),
        })
        .unwrap();
    };
    machine.spawn("sleeper", &["sh", "-c", "echo started; exec sleep 1000"]).unwrap();
    wait_for_start(1);
    let first = machine.pid_of("sleeper").unwrap();
    machine.kill("sleeper").unwrap();
    assert!(matches!(machine.pid_of("sleeper"), Err(MachineError::NotRunning { .. })));
    assert_eq!(machine.obituaries(), "", "we ended it");
    machine.start("sleeper").unwrap();
    wait_for_start(2);
    let second = machine.pid_of("sleeper").unwrap();
    assert_ne!(first, second);
    machine.stop("sleeper").unwrap();
    machine.start("sleeper").unwrap();
    wait_for_start(3);
    let last = machine.pid_of("sleeper").unwrap();

    machine.spawn("failing", &["sh", "-c", "echo no such disk; sleep 0.1; exit 3"]).unwrap();
    let words = wait_until("its end", PATIENCE, || match machine.obituaries() {
        none if none.is_empty() => Err("it runs"),
        words => Ok(words),
    })
    .unwrap();
    assert!(words.contains("failing on m: exit status: 3\n  no such disk"), "{words}");

    machine.power_off().unwrap();
    assert!(!Path::new(&format!("/proc/{last}")).exists());
}
