// What the ledger says at the end, in SQL: by the sqlite3 program, or by Node.js itself where it can.
import { execFileSync } from "node:child_process";

let database;
try {
  ({ DatabaseSync: database } = await import("node:sqlite"));
} catch {
  // Node.js before 22.5.
}

export function hasSqlite() {
  if (database) return true;
  try {
    execFileSync("sqlite3", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/// Rows as objects.
export function ask(file, sql) {
  if (database) {
    const open = new database(file, { readOnly: true });
    const rows = open.prepare(sql).all();
    open.close();
    return rows;
  }
  const said = execFileSync("sqlite3", ["-readonly", "-json", file, sql], { encoding: "utf8", maxBuffer: 1 << 30 });
  return said.trim() === "" ? [] : JSON.parse(said);
}
