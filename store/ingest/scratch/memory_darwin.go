package scratch

func adviseHuge([]byte) {} // the kernel has no such advice
