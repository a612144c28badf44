package kafka

// OnStep calls f between any two events that a crash may fall between.
func (s *Sink) OnStep(f func(name string)) { s.step = f }
