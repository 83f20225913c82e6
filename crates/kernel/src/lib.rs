//! System calls of one virtual machine: policy, spawn, exec, /proc, /dev, limits, events and the Driver trait.
