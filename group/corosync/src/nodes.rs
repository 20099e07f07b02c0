//! The ring's nodes, by its configuration.

use crate::error::CorosyncError;

mod raw;

/// A node of the ring, whether it is up or not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Node {
    /// Id of the node.
    pub id: u32,
    /// Name of the node, if it has one.
    pub name: Option<String>,
}

/// All nodes that `corosync.conf` names (`nodelist`), by id. None where it names none, as with the
/// transport `udp`.
///
/// # Errors
/// Without the library, when Corosync does not run or does not let us in.
pub fn nodes() -> Result<Vec<Node>, CorosyncError> {
    let map = raw::Handle::open()?;
    let mut all = Vec::new();
    for key in map.keys("nodelist.node.")? {
        let Some(node) = key.strip_suffix(".nodeid") else { continue };
        let Some(id) = map.number(&key)? else { continue };
        all.push(Node { id, name: map.text(&format!("{node}.name"))? });
    }
    all.sort();
    Ok(all)
}
