// node child.mjs PEER OPERATION [NUMBER ...]: what child.py does, for peers in JavaScript. See there.

import fs from 'node:fs'
import { createRequire } from 'node:module'

const BATCH = 1000
const PADDING = 'x'.repeat(60)
// Those of benchmarks/queue/peers/conditions.py.
const BODY = Number(process.env.DBQUEUE_BENCH_BODY ?? 0)
const AT_ONCE = 8
const url = process.env.DBQUEUE_BENCH_URL
const need = createRequire(process.env.DBQUEUE_BENCH_MODULES)
const [peer, operation, ...numbers] = process.argv.slice(2)

const now = () => (performance.timeOrigin + performance.now()) / 1000
const sleep = seconds => new Promise(resolve => setTimeout(resolve, 1000 * seconds))
const say = words => fs.writeSync(1, JSON.stringify(words) + '\n')
const payload = number => ({ n: number, padding: PADDING })

// The record of benchmarks/queue/probe.py.
let probe
function hit (number) {
  probe ??= fs.openSync(process.env.DBQUEUE_BENCH_PROBE, 'a')
  const record = Buffer.alloc(24)
  record.writeBigInt64LE(BigInt(number), 0)
  record.writeDoubleLE(now(), 8)
  record.writeBigInt64LE(BigInt(process.pid), 16)
  fs.writeSync(probe, record)
}

const { Adapter } = await import(`./adapters/${peer}.mjs`)
const wait = async job => {
  await sleep(BODY)
  hit(job.n)
}
const adapter = new Adapter(need, url, BODY ? wait : job => hit(job.n), best => BODY ? AT_ONCE : best)

async function remaining () {
  const client = new (need('pg').Client)({ connectionString: url })
  await client.connect()
  try {
    return Number((await client.query(adapter.remaining)).rows[0].n)
  } finally {
    await client.end()
  }
}

async function inBatches (first, messages) {
  for (let at = first; at < first + messages; at += BATCH) {
    const size = Math.min(BATCH, first + messages - at)
    await adapter.enqueueBulk(Array.from({ length: size }, (_, index) => payload(at + index)))
  }
}

async function waitForGo () {
  say({ ready: true })
  await new Promise(resolve => process.stdin.once('data', resolve))
}

async function timed (work) {
  await adapter.enqueueOne(payload(0))
  await waitForGo()
  const began = now()
  await work()
  say({ seconds: now() - began })
}

const operations = {
  async set_up () {
    await adapter.setUp()
    say({ done: true })
  },
  async preload (messages) {
    await inBatches(0, messages)
    say({ done: true })
  },
  async remaining () {
    say({ remaining: await remaining() })
  },
  async enqueue_one (messages) {
    await timed(async () => {
      for (let number = 1; number <= messages; number++) await adapter.enqueueOne(payload(number))
    })
  },
  async enqueue_bulk (messages) {
    await timed(() => inBatches(1, messages))
  },
  async pace (messages, gap) {
    await adapter.enqueueOne(payload(0))
    await waitForGo()
    const sent = []
    for (let number = 1; number <= messages; number++) {
      sent.push(now())
      await adapter.enqueueOne(payload(number))
      await sleep(gap)
    }
    say({ sent })
  },
  async watch () {
    await waitForGo()
    while (await remaining()) await sleep(0.02)
    say({ empty: now() })
  },
  async work () {
    await adapter.work()
  }
}

await adapter.open()
await operations[operation](...numbers.map(Number))
process.exit(0)
