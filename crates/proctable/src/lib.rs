//! Processes, sessions, groups, wait, signals, descriptor tables, pipes and poll.
