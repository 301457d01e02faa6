package driver

import (
	"errors"
	"fmt"
	"testing"
)

func TestRecoverableIsKept(t *testing.T) {
	err := fmt.Errorf("start: %w", Recoverable(ErrLost))
	if !IsRecoverable(err) || !errors.Is(err, ErrLost) || IsRecoverable(ErrLost) || IsRecoverable(nil) {
		t.Error(err)
	}
}
