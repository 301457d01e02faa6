package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"berth/internal/claim"
	"berth/internal/consensus"
	"berth/internal/server"
)

// Recovery is what an operator decides about the data of a stopped server.
type Recovery int

// The decisions.
const (
	Refill       Recovery = iota + 1 // the data is wrong: the leader refills the server
	CancelRefill                     // the data that was set aside is right after all
	Alone                            // the server goes on as the only one of its cluster
	AcceptLoss                       // the only server goes on with a log that ends too early
)

// Recover changes the data of the stopped server with the data directory of an
// agent. It returns a sentence that says what happens at the next start. After
// an error nothing has changed.
func Recover(dataDir string, what Recovery) (next string, err error) {
	dir := filepath.Join(dataDir, "server")
	if _, err := os.Stat(filepath.Join(dir, "log")); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s holds no data of a server", dataDir)
	}
	folder, err := server.Hold(dir, claim.Wait{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, folder.Close()) }()
	switch what {
	case Refill:
		return "At its next start the server sets its log and snapshots aside and is refilled from the leader.", consensus.MarkForRefill(dir)
	case CancelRefill:
		return "At its next start the server uses the log and snapshots that it had set aside.", consensus.CancelRefill(dir)
	case AcceptLoss:
		lost, err := consensus.AcceptLoss(dir)
		return fmt.Sprintf("The server goes on without the last %d entries of its log.", lost), err
	case Alone:
		peers, err := consensus.PeersOf(dir)
		if err != nil {
			return "", err
		}
		for _, p := range peers {
			if p.ID == folder.ID {
				p.Voter = true
				return "At its next start the server is the only one of its cluster. Every other server must be started with an empty data directory.",
					consensus.WritePeers(dir, []consensus.Peer{p})
			}
		}
		return "", fmt.Errorf("the Raft configuration in %s does not contain this server, whose ID is %s", dir, folder.ID)
	}
	return "", fmt.Errorf("unknown recovery %d", what)
}
