// Stands in for a header of this name, of which the UT decoder uses nothing on a CPU.
