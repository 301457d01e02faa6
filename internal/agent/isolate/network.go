package isolate

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"berth"
)

// InNetwork calls start on a thread that is in the network namespace at path, so
// that a process which it makes is in it; "" is the one that the thread is in. A
// thread that cannot leave again is not given back: the runtime ends it with its
// goroutine.
func InNetwork(path string, start func() (int, error)) (int, error) {
	if path == "" {
		return start()
	}
	runtime.LockOSThread()
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return 0, fmt.Errorf("join the network namespace %s: %w", path, err)
	}
	defer home.Close()
	if err := joinNetwork(path); err != nil {
		runtime.UnlockOSThread()
		return 0, err
	}
	n, err := start()
	if unix.Setns(int(home.Fd()), unix.CLONE_NEWNET) == nil {
		runtime.UnlockOSThread()
	}
	return n, err
}

// joinNetworkOf makes the network namespace of the task's first process that of
// this thread, unless it is already: a task that is not isolated may still be in
// the network of its group.
func joinNetworkOf(o *Enter) error {
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", o.PID))
	if err != nil {
		if os.IsPermission(err) { // then this agent could not have put it into another
			return nil
		}
		return berth.Errorf(berth.Conflict, "the task's process %d is gone: %w", o.PID, err)
	}
	if ours, err := os.Readlink("/proc/thread-self/ns/net"); err != nil || ours == theirs {
		return err
	}
	fd, err := unix.PidfdOpen(o.PID, 0)
	if err != nil {
		return berth.Errorf(berth.Conflict, "the task's process %d is gone: %w", o.PID, err)
	}
	defer unix.Close(fd)
	if startTime(o.PID) != o.StartTime { // see joinNamespaces
		return berth.Errorf(berth.Conflict, "the task's process %d is gone", o.PID)
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("join the network of the task: %w", err)
	}
	return nil
}
