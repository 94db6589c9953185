// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

extension DeviceDirectory {
    /// One watcher's way through the directory, independent of all others. It remembers what it has told, and whatever
    /// changes meanwhile is told once, as it is when it is asked for; so nothing queues up, and nothing is left out.
    package struct Iteration: Sendable {
        private let filters: RemoteSystemFilterSet
        private var told: [SystemID: Device] = [:]
        private var toldError: UInt64 = 0
        private var hasToldEnumeration = false
        /// The directory's revision when there was nothing left to tell.
        private var drained: UInt64?

        package init(matching filters: [RemoteSystemFilter] = []) {
            self.filters = RemoteSystemFilterSet(filters)
        }

        /// What is to be told next; `nil` until the directory's revision grows.
        /// - Parameter directory: the same one each time.
        package mutating func next(in directory: DeviceDirectory) -> RemoteSystemEvent? {
            guard drained != directory.revision else { return nil }
            let event = nextChange(in: directory) ?? nextNotice(in: directory)
            drained = event == nil ? directory.revision : nil
            return event
        }

        /// What went first, so that it never holds more than the directory; then what changed longest ago, so that a device
        /// that never rests does not hide the others.
        private mutating func nextChange(in directory: DeviceDirectory) -> RemoteSystemEvent? {
            let devices = directory.devices(hidesLocalApp: filters.hidesLocalApp).filter {
                filters.matches($0.value.system, account: directory.account)
            }
            if let gone = told.keys.filter({ devices[$0] == nil }).min(), let device = told.removeValue(forKey: gone) {
                return .removed(device.system)
            }
            let changed = devices.values.filter { told[$0.system.id]?.revision != $0.revision }
            for device in changed.sorted(by: { $0.revision < $1.revision }) {
                let before = told.updateValue(device, forKey: device.system.id)
                // It may have changed and changed back, or in something that nobody sees.
                if before?.system != device.system { return before == nil ? .added(device.system) : .updated(device.system) }
            }
            return nil
        }

        private mutating func nextNotice(in directory: DeviceDirectory) -> RemoteSystemEvent? {
            if let error = directory.error, error.revision > toldError {
                toldError = error.revision
                return .error(error.value)
            }
            if directory.isEnumerated, !hasToldEnumeration {
                hasToldEnumeration = true
                return .enumerationCompleted
            }
            return nil
        }
    }
}
