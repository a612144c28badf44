package file

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-mt/sluice/internal/chain"
	"github.com/sluice-mt/sluice/internal/compress"
	"github.com/sluice-mt/sluice/internal/job"
	"github.com/sluice-mt/sluice/producer"
)

// ChainConfig says where lanes that do not end are written, and how they are cut into files.
type ChainConfig struct {
	// Folder gives the folder of a lane's files.
	Folder func(lane string) (string, error)

	// Suffix ends the names of files, such as .jsonl.gz, and says how they are compressed.
	Suffix string

	// Encoder makes the bytes.
	Encoder Encoder

	// MadeWith is what the bytes depend on beside the input. A chain that was begun with something else is not
	// continued, unless Continue is set.
	MadeWith map[string]string
	Continue bool

	// DeadLetters gives the folder for the records of a lane that could not be translated, in files named as those
	// they are missing from. nil leaves them there, as the Encoder writes them.
	DeadLetters func(lane string) (string, error)

	Bytes int64         // a file of so many bytes is created at once; 0 is 16 MiB. Memory is this for every open lane
	Age   time.Duration // a commit creates a file only if its first record is older; 0 is at every commit
}

// A ChainSink is a producer.Sink of lanes that do not end, such as the partitions of a topic: one file after the other
// in a folder, named by the position at which it begins.
//
//	FOLDER/00000000000000001042.jsonl          outputs of the records from offset 1042 on
//	FOLDER/.sluice/00000000000000001042.json   the entry of that file: where it ends, and so where the next one begins
//	FOLDER/.sluice/TOKEN                       the data of a file on its way to its name
//
// The order of events is what makes a file appear once:
//
//	data     is written to TOKEN and synced, and so are dead letters, and the entry to TOKEN.json
//	commit   TOKEN.json is linked to the entry's name, which fails if there is one of that name; the folder is synced
//	publish  TOKEN is linked to the file's name, the folder is synced, TOKEN and TOKEN.json are removed
//	open     the file of the last entry is published, if that was not done, and other tokens are removed
//
// A reader of FOLDER/*.jsonl sees complete files only, and may remove them; entries must stay. An advisory lock keeps
// two processes from writing one lane; where locks do not reach, as on some network file systems, the link decides.
type ChainSink struct {
	config ChainConfig
	step   func(string) // called between any two events that a crash may fall between; for tests
	now    func() time.Time
}

// NewChain returns a ChainSink.
func NewChain(config ChainConfig) *ChainSink {
	if config.Bytes == 0 {
		config.Bytes = 16 << 20
	}
	return &ChainSink{config: config, step: func(string) {}, now: time.Now}
}

// Connect checks the configuration.
func (s *ChainSink) Connect(context.Context) error {
	if s.config.Folder == nil || s.config.Encoder == nil {
		return errors.New("producer/file: Folder and Encoder must be set")
	}
	return nil
}

// Close releases nothing: writers are closed by whoever opened them.
func (s *ChainSink) Close(context.Context) error { return nil }

// Open goes to the end of a lane's chain.
func (s *ChainSink) Open(_ context.Context, lane string) (producer.Writer, job.Position, error) {
	folder, err := s.config.Folder(lane)
	if err != nil {
		return nil, job.Position{}, err
	}
	c := &links{sink: s, folder: folder}
	if s.config.DeadLetters != nil {
		if c.letters, err = s.config.DeadLetters(lane); err != nil {
			return nil, job.Position{}, err
		}
		if filepath.Clean(c.letters) == filepath.Clean(folder) {
			return nil, job.Position{}, fmt.Errorf("outputs and dead letters cannot both lie in %s", folder)
		}
	}
	end, err := c.open()
	if err != nil {
		return nil, job.Position{}, errors.Join(err, c.Close())
	}
	config := chain.Config{
		Lane: lane, Encoder: s.config.Encoder, Format: compress.BySuffix(s.config.Suffix), Bytes: s.config.Bytes, Age: s.config.Age,
		Letters: c.letters != "", Now: s.now,
	}
	return chain.NewWriter(config, c, end), end, nil
}

const (
	workFolder  = ".sluice"
	entrySuffix = ".json"
	lockName    = "lock"
	letterEnd   = ".jsonl"
)

// links is the chain of files in a folder. It is a chain.Store.
type links struct {
	sink    *ChainSink
	folder  string
	letters string   // folder of dead letters, "" without
	lock    *os.File // nil before it is open
}

// A chainEntry is what is known of a file of a chain.
type chainEntry struct {
	Version  int               `json:"version"`
	Token    string            `json:"token"` // under which its data lie before they have their name
	End      job.Position      `json:"end"`
	Records  int64             `json:"records"`
	MadeWith map[string]string `json:"made_with"`
}

func (c *links) work(folder string) string { return filepath.Join(folder, workFolder) }

func (c *links) entry(offset int64) string {
	return filepath.Join(c.work(c.folder), chain.Name(offset)+entrySuffix)
}

func (c *links) file(offset int64) string {
	return filepath.Join(c.folder, chain.Name(offset)+c.sink.config.Suffix)
}

func (c *links) letterFile(offset int64) string {
	return filepath.Join(c.letters, chain.Name(offset)+letterEnd)
}

// open takes the lane for this process, finishes what another one has left, and returns the end of the chain.
func (c *links) open() (job.Position, error) {
	for _, folder := range []string{c.folder, c.letters} {
		if folder == "" {
			continue
		}
		if err := os.MkdirAll(c.work(folder), 0o777); err != nil {
			return job.Position{}, err
		}
	}
	var err error
	if c.lock, err = os.OpenFile(filepath.Join(c.work(c.folder), lockName), os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		return job.Position{}, err
	}
	if err := lock(c.lock); err != nil {
		if errors.Is(err, errLocked) {
			return job.Position{}, fmt.Errorf("%s is being written by another process: %w", c.folder, producer.ErrFenced)
		}
		return job.Position{}, &fs.PathError{Op: "lock", Path: c.lock.Name(), Err: err}
	}
	end, err := c.end()
	if err != nil {
		return job.Position{}, err
	}
	return end, errors.Join(c.sweep(c.folder), c.sweep(c.letters))
}

// end returns the end of the last file, which it publishes if that was not done.
func (c *links) end() (job.Position, error) {
	entries, err := os.ReadDir(c.work(c.folder))
	if err != nil {
		return job.Position{}, err
	}
	last := int64(-1)
	for _, entry := range entries {
		if offset, ending, ok := chain.ParseName(entry.Name()); ok && ending == entrySuffix {
			last = max(last, offset)
		}
	}
	if last < 0 {
		return job.Position{}, nil
	}
	data, err := readBounded(c.entry(last), maxCheckpoint)
	if err != nil {
		return job.Position{}, err
	}
	entry, err := parseChainEntry(data, last)
	if err != nil {
		return job.Position{}, fmt.Errorf("%s: %w", c.entry(last), err)
	}
	if changes := producer.MadeWithChanges(entry.MadeWith, c.sink.config.MadeWith); len(changes) > 0 && !c.sink.config.Continue {
		return job.Position{}, &ChangedError{Output: c.folder, Changes: changes}
	}
	return entry.End, c.publish(last, entry.Token)
}

func parseChainEntry(data []byte, start int64) (*chainEntry, error) {
	entry := new(chainEntry)
	if err := json.Unmarshal(data, entry); err != nil {
		return nil, fmt.Errorf("not an entry of a chain: %w", err)
	}
	switch {
	case entry.Version != checkpointVersion:
		return nil, fmt.Errorf("an entry of version %d, and this program knows %d", entry.Version, checkpointVersion)
	case entry.End.Offset <= start || entry.End.Record < 0 || entry.End.Input != 0:
		return nil, fmt.Errorf("an entry that goes from %d to %+v", start, entry.End)
	case len(entry.Token) != 32 || strings.Trim(entry.Token, "0123456789abcdef") != "":
		return nil, fmt.Errorf("an entry with the token %q", entry.Token)
	}
	return entry, nil
}

// sweep removes what was written and never committed.
func (c *links) sweep(folder string) error {
	if folder == "" {
		return nil
	}
	names, err := os.ReadDir(c.work(folder))
	if err != nil {
		return err
	}
	for _, name := range names {
		if token := strings.TrimSuffix(name.Name(), entrySuffix); len(token) == 32 {
			if err := remove(filepath.Join(c.work(folder), name.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Create makes a piece a file, which must be the first that begins there.
func (c *links) Create(_ context.Context, piece *chain.Piece) error {
	if err := c.create(piece); err != nil {
		return fmt.Errorf("%s: %w", c.file(piece.Start.Offset), explained(err))
	}
	return nil
}

func (c *links) create(piece *chain.Piece) error {
	start := piece.Start.Offset
	if !exists(c.entry(start)) && exists(c.file(start)) {
		return fmt.Errorf("%w, and there is no entry for it in %s: move it away", ErrExists, c.work(c.folder))
	}
	entry := chainEntry{Version: checkpointVersion, Token: newToken(), End: piece.End, Records: piece.Records, MadeWith: c.sink.config.MadeWith}
	if err := c.prepare(&entry, piece); err != nil {
		return errors.Join(err, c.forget(entry.Token))
	}
	err := os.Link(c.token(c.folder, entry.Token)+entrySuffix, c.entry(start))
	if errors.Is(err, fs.ErrExist) {
		return errors.Join(fmt.Errorf("%w: it was written meanwhile", producer.ErrFenced), c.forget(entry.Token))
	}
	if err != nil {
		return errors.Join(err, c.forget(entry.Token))
	}
	c.sink.step("entry linked")
	if err := syncFolder(c.work(c.folder)); err != nil {
		return err
	}
	c.sink.step("committed")
	return c.publish(start, entry.Token)
}

func newToken() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	return hex.EncodeToString(random[:])
}

func (c *links) token(folder, token string) string { return filepath.Join(c.work(folder), token) }

// prepare writes everything that a commit makes count.
func (c *links) prepare(entry *chainEntry, piece *chain.Piece) error {
	encoded, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	if err := writeNew(c.token(c.folder, entry.Token), piece.Data); err != nil {
		return err
	}
	c.sink.step("data written")
	if len(piece.Letters) > 0 {
		if err := writeNew(c.token(c.letters, entry.Token), piece.Letters); err != nil {
			return err
		}
		if err := syncFolder(c.work(c.letters)); err != nil {
			return err
		}
		c.sink.step("letters written")
	}
	if err := writeNew(c.token(c.folder, entry.Token)+entrySuffix, append(encoded, '\n')); err != nil {
		return err
	}
	c.sink.step("entry written")
	return syncFolder(c.work(c.folder))
}

// writeNew writes a file durably.
func writeNew(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// publish gives the data and the letters of an entry their names, as far as that was not done.
func (c *links) publish(start int64, token string) error {
	if c.letters != "" {
		if err := c.name(c.token(c.letters, token), c.letterFile(start)); err != nil {
			return err
		}
		c.sink.step("letters published")
	}
	if err := c.name(c.token(c.folder, token), c.file(start)); err != nil {
		return err
	}
	c.sink.step("file published")
	return c.forget(token)
}

// name links a file to its name. One that is gone has had its name; whether it is still there is the readers' business.
func (c *links) name(token, name string) error {
	err := os.Link(token, name)
	if errors.Is(err, fs.ErrNotExist) && !exists(token) {
		return nil
	}
	if errors.Is(err, fs.ErrExist) && sameFile(token, name) {
		err = nil
	}
	if err != nil {
		return err
	}
	return syncFolder(filepath.Dir(name))
}

func sameFile(one, other string) bool {
	first, firstErr := os.Stat(one)
	second, secondErr := os.Stat(other)
	return firstErr == nil && secondErr == nil && os.SameFile(first, second)
}

// forget removes what lies under a token.
func (c *links) forget(token string) error {
	err := errors.Join(remove(c.token(c.folder, token)), remove(c.token(c.folder, token)+entrySuffix))
	if c.letters != "" {
		err = errors.Join(err, remove(c.token(c.letters, token)))
	}
	return err
}

// Close gives up the lock.
func (c *links) Close() error {
	if c.lock == nil {
		return nil
	}
	return c.lock.Close()
}
