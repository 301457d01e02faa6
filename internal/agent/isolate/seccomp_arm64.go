package isolate

import "golang.org/x/sys/unix"

// auditArch is the architecture that calls must be made for. Those of 32 bits
// end the program: their numbers mean other calls.
const auditArch = unix.AUDIT_ARCH_AARCH64

// archCalls are the calls that this architecture has besides.
var archCalls = []uint32{unix.SYS_FSTATAT}
