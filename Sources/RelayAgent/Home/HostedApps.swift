// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

import DeviceRelay
import RelayProtocol
import RelayStorage

/// The apps that `relay host` has published. It withdraws its app when it ends. After a crash, the file in the home still names the app, and
/// the next process of the home withdraws it: an app without a process must not be listed.
struct HostedApps: Sendable {
    private let file: String
    private let lock: String
    private let hostLock: String

    init(_ home: Home) {
        file = home.path + "/hosted-apps"
        lock = home.path + "/hosted-apps.lock"
        hostLock = home.path + "/host.lock"
    }

    /// Records that this process, which holds the host lock, publishes an app. It waits for a process that withdraws apps.
    func add(_ appID: String) throws {
        try FileLock.whileHolding(lock) { () throws(StorageError) in try write(read().union([appID])) }
    }

    func remove(_ appID: String) throws {
        try FileLock.whileHolding(lock) { () throws(StorageError) in try write(read().subtracting([appID])) }
    }

    private func read() throws(StorageError) -> Set<String> {
        guard let bytes = try PrivateFile.contents(of: file) else { return [] }
        let lines = bytes.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
        return Set(lines.filter(ProgramText.isValid))
    }

    private func write(_ apps: Set<String>) throws(StorageError) {
        if apps.isEmpty { return try PrivateFile.delete(file) }
        try PrivateFile.replace(file, with: Array(apps.sorted().map { "\($0)\n" }.joined().utf8))
    }

    /// Withdraws the apps whose process has ended. Does nothing if there is none, or if another process hosts or withdraws now. What fails
    /// is left to the next process.
    /// - Parameter hosted: The app of this process, if it hosts.
    func withdrawEnded(by local: LocalDevice, hosting hosted: String? = nil) async {
        guard (try? read())?.subtracting([hosted].compactMap { $0 }).isEmpty == false, let lock = try? FileLock(tryLocking: lock) else {
            return
        }
        defer { lock.release() }
        // A host that starts now waits for `lock` before it publishes.
        guard hosted != nil || FileLock.isHeld(hostLock) != true, var apps = try? read() else { return }
        for app in apps where app != hosted {
            guard await local.unpublish(app) else { continue }
            apps.remove(app)
        }
        try? write(apps)
    }
}
