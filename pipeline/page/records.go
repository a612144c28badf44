package page

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sluice-mt/sluice/internal/deadletter"
	"github.com/sluice-mt/sluice/internal/job"
)

// A Record is one that failed or is flagged, cut to a size for showing.
type Record struct {
	Number      int64    `json:"number"` // counted by the page
	Time        int64    `json:"time"`   // milliseconds since 1970
	Lane        string   `json:"lane"`
	Record      int64    `json:"record"`
	Failed      bool     `json:"failed"` // it has become a dead letter, if the job keeps these
	Flags       []string `json:"flags"`
	Reason      string   `json:"reason,omitempty"`
	Text        string   `json:"text"`
	Translation string   `json:"translation,omitempty"`
}

// What is kept: records of each kind, bytes of each text, and flagged records of each second. A job may flag every record.
const (
	keptRecords      = 500
	keptBytes        = 1000
	flaggedPerSecond = 50
)

// records keeps the last records out of the ordinary. Those that failed have a ring of their own, so that flags do not push them out.
type records struct {
	mutex           sync.Mutex
	count           Kept
	number          int64
	failed, flagged []Record
	second          int64 // in which flagged records were kept last
	inSecond        int
}

func newRecords() *records { return new(records) }

// Notable is for pipeline.Config.
func (p *Page) Notable(lane string, output *job.Output) { p.records.add(lane, output, time.Now()) }

func (r *records) add(lane string, output *job.Output, now time.Time) {
	failed := deadletter.Failed(output) != nil
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if failed {
		r.count.Failed++
		r.failed = r.keep(r.failed, r.record(lane, output, now))
		return
	}
	r.count.Flagged++
	if now.Unix() != r.second {
		r.second, r.inSecond = now.Unix(), 0
	}
	if r.inSecond++; r.inSecond <= flaggedPerSecond {
		r.flagged = r.keep(r.flagged, r.record(lane, output, now))
	}
}

// keep adds a record to the end of a list, and lets go of the first if there are too many.
func (*records) keep(list []Record, record Record) []Record {
	if len(list) == keptRecords {
		copy(list, list[1:])
		list = list[:keptRecords-1]
	}
	return append(list, record)
}

func (r *records) record(lane string, output *job.Output, now time.Time) Record {
	r.number++
	record := Record{
		Number: r.number, Time: now.UnixMilli(), Lane: cut(lane), Record: output.Record.Seq, Flags: (output.Record.Flags | output.Result.Flags).Names(),
		Text: cut(output.Record.Text), Translation: cut(output.Result.Text()),
	}
	if original := output.Record.Original; original != nil {
		record.Text = cut(string(original[:min(len(original), keptBytes+utf8.UTFMax)]))
	}
	if why := deadletter.Failed(output); why != nil {
		record.Failed, record.Reason = true, cut(why.Error())
	}
	return record
}

// cut returns the beginning of a text as a string of its own, so that the whole is not kept.
func cut(text string) string {
	if len(text) <= keptBytes {
		return strings.Clone(strings.ToValidUTF8(text, "\ufffd"))
	}
	end := keptBytes
	for end > keptBytes-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.ToValidUTF8(text[:end], "\ufffd") + "…"
}

func (r *records) kept() Kept {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.count
}

// Found is the answer to a search.
type Found struct {
	Kept     int      `json:"kept"`     // among which was searched
	Matching int      `json:"matching"` // of these
	Shown    []Record `json:"shown"`    // the newest first
}

// find returns the newest records that hold a text anywhere, of one kind or of both.
func (r *records) find(text string, failed, flagged bool, limit int) Found {
	text = strings.ToLower(text)
	var all []Record
	r.mutex.Lock()
	if failed {
		all = append(all, r.failed...)
	}
	if flagged {
		all = append(all, r.flagged...)
	}
	r.mutex.Unlock()
	found := Found{Kept: len(all), Shown: []Record{}}
	slices.SortFunc(all, func(a, b Record) int { return int(b.Number - a.Number) })
	for i := range all {
		if !all[i].holds(text) {
			continue
		}
		if found.Matching++; len(found.Shown) < limit {
			found.Shown = append(found.Shown, all[i])
		}
	}
	return found
}

func (r *Record) holds(lower string) bool {
	return lower == "" || slices.ContainsFunc([]string{r.Lane, r.Reason, r.Text, r.Translation, strings.Join(r.Flags, " ")}, func(field string) bool {
		return strings.Contains(strings.ToLower(field), lower)
	})
}

// Most records that are shown at a time.
const mostShown = 200

// serveRecords answers with the records that hold find=; kind= is failed, flagged or all.
func (p *Page) serveRecords(w http.ResponseWriter, r *http.Request) {
	limit, err := number(r.FormValue("limit"), usualLanes, mostShown)
	if err != nil {
		http.Error(w, "limit is a number", http.StatusBadRequest)
		return
	}
	kind := r.FormValue("kind")
	if !slices.Contains([]string{"", "all", "failed", "flagged"}, kind) {
		http.Error(w, "kind is all, failed or flagged", http.StatusBadRequest)
		return
	}
	answer(w, p.records.find(r.FormValue("find"), kind != "flagged", kind != "failed", limit))
}
