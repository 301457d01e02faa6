package isolate

import "golang.org/x/sys/unix"

// auditArch is the architecture that calls must be made for. Those of 32 bits
// end the program: their numbers mean other calls.
const auditArch = unix.AUDIT_ARCH_X86_64

// archCalls are the older calls that this architecture has besides.
var archCalls = []uint32{
	unix.SYS_OPEN, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_POLL, unix.SYS_ACCESS, unix.SYS_PIPE, unix.SYS_SELECT, unix.SYS_DUP2, unix.SYS_PAUSE,
	unix.SYS_ALARM, unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_GETDENTS, unix.SYS_RENAME, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_CREAT, unix.SYS_LINK,
	unix.SYS_UNLINK, unix.SYS_SYMLINK, unix.SYS_READLINK, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_GETPGRP, unix.SYS_UTIME,
	unix.SYS_MKNOD, unix.SYS_USTAT, unix.SYS_ARCH_PRCTL, unix.SYS_TIME, unix.SYS_SET_THREAD_AREA, unix.SYS_GET_THREAD_AREA, unix.SYS_EPOLL_CREATE,
	unix.SYS_INOTIFY_INIT, unix.SYS_FUTIMESAT, unix.SYS_NEWFSTATAT, unix.SYS_SIGNALFD, unix.SYS_EVENTFD, unix.SYS_UTIMES, unix.SYS_EPOLL_WAIT,
}
