-- A turn behind another of its session is `queued`; only the session's oldest is `waiting`. Claiming then reads what is
-- due in the order of an index, however many turns stand behind one session.
DROP INDEX inbox_session;

CREATE INDEX inbox_session ON inbox (session, state, n) WHERE state IN ('waiting', 'working', 'queued');

UPDATE inbox SET state = 'queued'
WHERE state = 'waiting' AND n > (SELECT min(p.n) FROM inbox p WHERE p.session = inbox.session
                                 AND p.state IN ('waiting', 'working', 'queued'));
