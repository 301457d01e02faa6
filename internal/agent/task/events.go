package task

import (
	"fmt"
	"strconv"
	"time"

	"berth"
	"berth/internal/agent/driver"
)

// note adds an event to the task's history, which keeps the last few.
func (s *step) note(e berth.TaskEvent) {
	s.Task.Events = append(s.Task.Events, e)
	if n := len(s.Task.Events); n > berth.TaskEventsKept {
		s.Task.Events = append([]berth.TaskEvent(nil), s.Task.Events[n-berth.TaskEventsKept:]...)
	}
}

const maxMessage = 1000 // bytes; a message travels to servers and is kept in every copy of the state

// event returns an event with a message for people, cut to maxMessage, and
// details for programs, given as key, value, key, value. Without a message the
// type's own text stays.
func event(typ string, now time.Time, message string, details ...string) berth.TaskEvent {
	e := berth.NewTaskEvent(typ, now)
	if message != "" {
		if len(message) > maxMessage {
			message = message[:maxMessage] + "…"
		}
		e.DisplayMessage = message
	}
	if len(details) > 0 {
		e.Details = make(map[string]string, len(details)/2)
		for i := 0; i < len(details); i += 2 {
			e.Details[details[i]] = details[i+1]
		}
	}
	return e
}

// terminatedEvent returns the event of an exit. The form of its message and the
// names of its details are Nomad's.
func terminatedEvent(now time.Time, x *driver.Exit) berth.TaskEvent {
	message := "Exit Code: " + strconv.Itoa(x.Code)
	details := []string{"exit_code", strconv.Itoa(x.Code)}
	if x.Signal != 0 {
		message += ", Signal: " + strconv.Itoa(x.Signal)
		details = append(details, "signal", strconv.Itoa(x.Signal))
	}
	why := x.Err
	if x.OOMKilled {
		why = "OOM Killed"
		details = append(details, "oom_killed", "true")
	}
	if why != "" {
		message += fmt.Sprintf(", Exit Message: %q", why)
		details = append(details, "exit_message", why)
	}
	return event(berth.EventTerminated, now, message, details...)
}

// lostEvent returns the event of an end that nobody saw. It has no exit code.
func lostEvent(now time.Time, why string) berth.TaskEvent {
	return event(berth.EventTerminated, now, "How the task ended is not known: "+why)
}

// failureEvent returns the event of a start that failed, in the hooks or in the
// driver by its type.
func failureEvent(typ string, now time.Time, why string) berth.TaskEvent {
	return event(typ, now, why)
}

// restartingEvent returns the event of a restart that comes after delay. The
// detail start_delay is in nanoseconds.
func restartingEvent(now time.Time, delay time.Duration, why string) berth.TaskEvent {
	return event(berth.EventRestarting, now, fmt.Sprintf("Task restarting in %v: %s", delay.Round(time.Millisecond), why),
		"restart_reason", why, berth.DetailStartDelay, strconv.FormatInt(int64(delay), 10))
}

// notRestartingEvent returns the event of a task that is given up on, which
// makes its allocation fail.
func notRestartingEvent(now time.Time, why string) berth.TaskEvent {
	return event(berth.EventNotRestarting, now, why, "fails_task", "true", "restart_reason", why)
}

// killingEvent returns the event of an order to end. timeout is what the task
// has between the signal and the kill.
func killingEvent(now time.Time, why string, timeout time.Duration) berth.TaskEvent {
	return event(berth.EventKilling, now, fmt.Sprintf("Asked to end, killed if it takes longer than %v: %s", timeout, why),
		"kill_reason", why, "kill_timeout", timeout.String())
}

// becauseEvent says what led to a stop or restart; details are as for event.
func becauseEvent(typ string, now time.Time, why string, details ...string) berth.TaskEvent {
	return event(typ, now, why, details...)
}

// signalingEvent returns the event of a signal that is about to be sent; name
// is as SIGHUP.
func signalingEvent(now time.Time, name, why string) berth.TaskEvent {
	return event(berth.EventSignaling, now, fmt.Sprintf("Task being sent %s: %s", name, why), "signal", name, "signal_reason", why)
}
