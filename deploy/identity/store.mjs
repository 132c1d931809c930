// What the provider must remember over a restart, in one append-only file of JSON lines: [key, value, expires at (ms)].

import fs from 'node:fs';
import path from 'node:path';

const COMPACT_AFTER = 5000; // lines appended before the file is written anew

class Store {
  constructor(file) {
    this.file = file;
    this.rows = new Map();
    fs.mkdirSync(path.dirname(file), { recursive: true });
    if (fs.existsSync(file)) this.load();
    this.compact();
  }

  load() {
    for (const line of fs.readFileSync(this.file, 'utf8').split('\n')) {
      let row;
      try {
        row = JSON.parse(line);
      } catch {
        continue; // the empty end, or a line cut short by a kill
      }
      const [key, value, expires] = row;
      if (value === null) this.rows.delete(key);
      else this.rows.set(key, { value, expires });
    }
  }

  compact() {
    const now = Date.now();
    for (const [key, { expires }] of this.rows) if (expires && expires < now) this.rows.delete(key);
    const lines = [...this.rows].map(([key, { value, expires }]) => `${JSON.stringify([key, value, expires])}\n`);
    fs.writeFileSync(`${this.file}.new`, lines.join(''), { mode: 0o600 });
    fs.renameSync(`${this.file}.new`, this.file);
    this.appended = 0;
  }

  get(key) {
    const row = this.rows.get(key);
    return row && !(row.expires && row.expires < Date.now()) ? structuredClone(row.value) : undefined;
  }

  set(key, value, expires) {
    if (value === null) this.rows.delete(key);
    else this.rows.set(key, { value, expires });
    fs.appendFileSync(this.file, `${JSON.stringify([key, value, expires])}\n`);
    this.appended += 1;
    if (this.appended > COMPACT_AFTER) this.compact();
  }

  keysWhere(test) {
    return [...this.rows].filter(([key, { value }]) => test(key, value)).map(([key]) => key);
  }
}

/** An adapter factory for `oidc-provider`, one adapter per kind of thing it keeps. */
export function openStore(file) {
  const store = new Store(file);
  return (model) => {
    const keyOf = (id) => `${model}:${id}`;
    return {
      async upsert(id, payload, expiresIn) {
        store.set(keyOf(id), payload, expiresIn ? Date.now() + expiresIn * 1000 : null);
      },
      async find(id) {
        return store.get(keyOf(id));
      },
      async findByUid(uid) {
        const [key] = store.keysWhere((one, value) => one.startsWith(`${model}:`) && value.uid === uid);
        return key && store.get(key);
      },
      async findByUserCode() {
        return undefined; // the device flow is off
      },
      async consume(id) {
        const payload = store.get(keyOf(id));
        if (payload) store.set(keyOf(id), { ...payload, consumed: Math.floor(Date.now() / 1000) }, store.rows.get(keyOf(id)).expires);
      },
      async destroy(id) {
        store.set(keyOf(id), null);
      },
      async revokeByGrantId(grantId) {
        for (const key of store.keysWhere((_, value) => value.grantId === grantId)) store.set(key, null);
      },
    };
  };
}
