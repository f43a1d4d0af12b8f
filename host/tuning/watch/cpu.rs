//! Looks at the CPU through sysfs and procfs.
