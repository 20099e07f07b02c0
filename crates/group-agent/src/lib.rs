//! The agent that makes a node a member of groups.
