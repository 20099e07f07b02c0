//! Reading the group's clock from a program on a member's node.
