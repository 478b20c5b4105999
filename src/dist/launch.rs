//! What a launcher says to the processes that it starts.

use std::fmt;

use crate::base::{Error, Result};

/// A process's place, as its launcher has written it into the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Who started it.
    launcher: &'static str,
    pub rank: usize,
    pub size: usize,
    /// Its number among the processes on its machine.
    pub local_rank: usize,
}

/// A launcher, and its variables for rank, size and local rank. Launchers run within each other, `mpirun`
/// in an allocation of Slurm's, say: the inner ones come first.
const LAUNCHERS: [(&str, [&str; 3]); 4] = [
    (OPEN_MPI, ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"]),
    (HYDRA, ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"]),
    ("torchrun", ["RANK", "WORLD_SIZE", "LOCAL_RANK"]),
    ("srun", ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"]),
];

const OPEN_MPI: &str = "Open MPI's mpirun";
const HYDRA: &str = "MPICH's mpirun";

impl Launch {
    /// What the environment says; `None` for a process that was started alone.
    ///
    /// # Errors
    /// A variable that is no number, or a rank that the size does not have.
    pub fn from_environment() -> Result<Option<Launch>> {
        Launch::read(&|name| std::env::var(name).ok())
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Launch>> {
        let number = |name: &'static str| -> Result<Option<usize>> {
            let Some(text) = variable(name) else { return Ok(None) };
            let wrong = |_| Error::Parse { what: name, expected: "0, 1, 2, ..".into(), found: text.clone() };
            text.trim().parse().map(Some).map_err(wrong)
        };
        for (launcher, [rank, size, local]) in LAUNCHERS {
            let (Some(own), Some(count)) = (number(rank)?, number(size)?) else { continue };
            if own >= count {
                let expected = format!("a rank below {count}, the number of ranks");
                return Err(Error::Parse { what: rank, expected, found: own.to_string() });
            }
            let local_rank = number(local)?.unwrap_or(own);
            return Ok(Some(Launch { launcher, rank: own, size: count, local_rank }));
        }
        Ok(None)
    }

    /// Whether the processes can meet by MPI.
    pub fn is_mpi(&self) -> bool {
        [OPEN_MPI, HYDRA].contains(&self.launcher)
    }

    /// Whether it is MPICH's launcher, which Intel's and others are too.
    #[cfg(all(feature = "mpi", unix))]
    pub fn is_hydra(&self) -> bool {
        self.launcher == HYDRA
    }
}

impl fmt::Display for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has started rank {} of {}", self.launcher, self.rank, self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<Launch>> {
        let find = |name: &str| Some(variables.iter().find(|(known, _)| *known == name)?.1.to_string());
        Launch::read(&find)
    }

    #[test]
    fn the_innermost_launcher_is_believed() {
        let slurm = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2"), ("SLURM_LOCALID", "0")];
        let open_mpi = [("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "8")];
        let both = read(&[&slurm[..], &open_mpi[..]].concat()).unwrap().unwrap();
        assert_eq!((both.rank, both.size, both.local_rank), (3, 8, 3));
        assert_eq!(both.to_string(), "Open MPI's mpirun has started rank 3 of 8");
        let torchrun = [("RANK", "5"), ("WORLD_SIZE", "6"), ("LOCAL_RANK", "1")];
        let inner = read(&[&slurm[..], &torchrun[..]].concat()).unwrap().unwrap();
        assert_eq!((inner.launcher, inner.rank, inner.local_rank), ("torchrun", 5, 1));
        assert_eq!(read(&[]).unwrap(), None);
        // One variable alone, as other programs use it, is no launcher.
        assert_eq!(read(&[("RANK", "5")]).unwrap(), None);
    }

    #[test]
    fn numbers_that_are_none_are_errors() {
        let wrong = read(&[("PMI_RANK", "one"), ("PMI_SIZE", "2")]).unwrap_err().to_string();
        assert_eq!(wrong, "cannot parse PMI_RANK: expected 0, 1, 2, .., found \"one\"");
        assert!(read(&[("RANK", "2"), ("WORLD_SIZE", "2")]).is_err());
    }
}
