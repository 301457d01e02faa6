package eventually

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A goroutine that ends later than goleak waits by itself is no leak.
func TestNoLeaksWaits(t *testing.T) {
	others, end := goleak.IgnoreCurrent(), make(chan struct{})
	go func() { <-end }()
	if goleak.Find(others) == nil {
		t.Error("what runs is not found")
	}
	time.AfterFunc(time.Second, func() { close(end) })
	if err := NoLeaks(others); err != nil {
		t.Error(err)
	}
}
