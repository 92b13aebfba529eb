//! A machine's own folder among the lab's: what its programs leave.

use std::fs;
use std::path::PathBuf;

use super::lab::Lab;

impl Lab {
    fn machine_dir(&self, machine: &str) -> PathBuf {
        self.runtime.join("machines").join(machine)
    }

    /// What the environment tells programs of where they are: the lab, the machine, and a folder
    /// for sockets and the like, which is gone with the lab.
    pub(super) fn machine_variables(&self, machine: &str) -> Vec<(String, String)> {
        let mut all = vec![
            ("VINK_LAB", self.label.clone()),
            ("VINK_MACHINE", machine.to_owned()),
        ];
        // The folder is on this host.
        if self.link_of_machine(machine).is_none() {
            all.push(("VINK_RUN", self.run_dir(machine)));
        }
        let all = all.into_iter();
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn run_dir(&self, machine: &str) -> String {
        let run = self.machine_dir(machine).join("run");
        // A program that needs it fails with an error of its own.
        let _ = fs::create_dir_all(&run);
        run.display().to_string()
    }
}
