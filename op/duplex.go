package op

// Duplex is a call in which both ends send messages until one has nothing more
// to say. One goroutine may send while another receives.
type Duplex interface {
	// Send sends a message, which must not be empty. It waits while the far
	// end is slow, and fails if that takes too long.
	Send(message []byte) error
	// Recv returns the next message, which is the caller's to keep. At the end
	// it returns io.EOF, or the error that the far end ended the call with.
	Recv() ([]byte, error)
	// Close ends the call, and with it a Send or Recv in progress.
	Close() error
}

// Incoming is a Duplex at the end that was called. Its handler ends the call by
// returning: with an error before it has accepted the call, that is the answer.
type Incoming interface {
	Send(message []byte) error
	Recv() ([]byte, error)
	// Accept tells the caller that the call is accepted. Recv and Send do so,
	// too.
	Accept() error
	// Interrupt ends a Recv in progress, and fails those that follow.
	Interrupt()
}
