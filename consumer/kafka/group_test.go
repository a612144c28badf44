package kafka

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-mt/sluice/internal/kafkaclient"
)

// spread checks that every partition has one owner and that shares are equal, give or take one.
func spread(r *rapid.T, shares map[string]kafkaclient.Assignment, topics map[string]int) map[kafkaclient.Partition]string {
	owners := map[kafkaclient.Partition]string{}
	least, most := 1<<30, 0
	for id, share := range shares {
		n := 0
		for topic, ids := range share {
			for _, p := range ids {
				partition := kafkaclient.Partition{Topic: topic, ID: p}
				if other, twice := owners[partition]; twice {
					r.Fatalf("%v is given to %s and to %s", partition, id, other)
				}
				owners[partition] = id
				n++
			}
		}
		least, most = min(least, n), max(most, n)
	}
	total := 0
	for _, count := range topics {
		total += count
	}
	if len(owners) != total || most-least > 1 {
		r.Fatalf("%d of %d partitions, between %d and %d each: %v", len(owners), total, least, most, shares)
	}
	return owners
}

// Members come and go; each time the partitions are divided evenly, and nobody loses one that need not move.
func TestBalance(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		topics := map[string]int{"a": rapid.IntRange(0, 12).Draw(r, "a"), "b": rapid.IntRange(0, 3).Draw(r, "b")}
		before := map[string]kafkaclient.Assignment{}
		for generation := range 6 {
			count := rapid.IntRange(1, 5).Draw(r, "members")
			var members []balanceMember
			for i := range count {
				id := fmt.Sprint("m", rapid.IntRange(0, 7).Draw(r, "id"), "-", i%2)
				if slices.ContainsFunc(members, func(m balanceMember) bool { return m.id == id }) {
					continue
				}
				members = append(members, balanceMember{id: id, topics: []string{"a", "b"}, generation: generation, claims: before[id]})
			}
			shares := balance(members, topics)
			owners := spread(r, shares, topics)
			total := topics["a"] + topics["b"]
			for _, m := range members {
				had, lost := 0, 0
				for topic, ids := range m.claims {
					for _, p := range ids {
						had++
						if owners[kafkaclient.Partition{Topic: topic, ID: p}] != m.id {
							lost++
						}
					}
				}
				if quota := total / len(members); had-lost < min(had, quota) {
					r.Fatalf("%s had %d partitions and lost %d, and an equal share is %d", m.id, had, lost, quota)
				}
			}
			before = shares
		}
	})
}

func TestALaterClaimWins(t *testing.T) {
	claim := kafkaclient.Assignment{"a": {0, 1}}
	members := []balanceMember{
		{id: "old", topics: []string{"a"}, generation: 3, claims: claim},
		{id: "new", topics: []string{"a"}, generation: 4, claims: claim},
		{id: "other", topics: []string{"b"}, generation: 9, claims: claim}, // does not want the topic any more
	}
	shares := balance(members, map[string]int{"a": 2, "b": 1})
	got := slices.Sorted(maps.Keys(shares["new"]))
	if !slices.Equal(got, []string{"a"}) || len(shares["new"]["a"]) == 0 || !slices.Contains(shares["new"]["a"], 0) {
		t.Errorf("%v", shares)
	}
	if len(shares["other"]["b"]) != 1 || len(shares["other"]["a"]) != 0 {
		t.Errorf("%v", shares)
	}
}

func TestNobodyWantsATopic(t *testing.T) {
	shares := balance([]balanceMember{{id: "m", topics: []string{"a"}}}, map[string]int{"a": 1, "b": 2})
	if len(shares["m"]["b"]) != 0 || len(shares["m"]["a"]) != 1 {
		t.Errorf("%v", shares)
	}
	if shares := balance(nil, map[string]int{"a": 1}); len(shares) != 0 {
		t.Errorf("%v", shares)
	}
}
