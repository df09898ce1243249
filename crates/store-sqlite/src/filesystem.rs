//! Telling network file systems from local ones. SQLite needs byte-range locks and shared memory that hold
//! between processes; over a network they often do not.

use std::path::Path;

/// Names by the numbers that Linux reports. FUSE is left out: most of what runs on it is local.
#[cfg(target_os = "linux")]
const NETWORK: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9P"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x4750_4653, "GPFS"),
    (0x786f_4256, "VirtualBox share"),
    (0xbacb_acbc, "VMware share"),
];

/// The kind of network file system that a directory is on, if it is on one.
#[cfg(target_os = "linux")]
pub(crate) fn network_kind(directory: &Path) -> Option<&'static str> {
    let found = rustix::fs::statfs(directory).ok()?;
    // The number has 32 bits; the field is wider on some machines and signed on others.
    kind_of(found.f_type as u32)
}

/// Only Linux tells.
#[cfg(not(target_os = "linux"))]
pub(crate) fn network_kind(_directory: &Path) -> Option<&'static str> {
    None
}

#[cfg(target_os = "linux")]
fn kind_of(number: u32) -> Option<&'static str> {
    NETWORK.iter().find(|(network, _)| *network == number).map(|(_, name)| *name)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_number() {
        assert_eq!(kind_of(0x6969), Some("NFS"));
        assert_eq!(kind_of(0xff53_4d42), Some("CIFS"));
        for local in [
            0xef53,      /* ext4 */
            0x5846_5342, /* xfs */
            0x9123_683e, /* btrfs */
            0x0102_1994, /* tmpfs */
        ] {
            assert_eq!(kind_of(local), None);
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_on_no_network() {
        assert_eq!(network_kind(Path::new("/no/such/directory")), None);
    }
}
