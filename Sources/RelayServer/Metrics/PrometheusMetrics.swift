// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors

package import CoreMetrics
import Synchronization

/// Keeps metrics in memory and prints them as Prometheus text (exposition format 0.0.4). Labels and their values are constants of this
/// process and never text of a peer, so their number is bounded.
package final class PrometheusMetrics: MetricsFactory {
    struct Key: Hashable, Comparable {
        var name: String
        var labels: String
        static func < (left: Key, right: Key) -> Bool { (left.name, left.labels) < (right.name, right.labels) }
    }

    private let cells = Mutex<[Key: Cell]>([:])

    package init() {}

    /// All metrics, sorted by name.
    package var text: String {
        let cells = cells.withLock { $0 }
        var lines: [String] = []
        var name = ""
        for (key, cell) in cells.sorted(by: { $0.key < $1.key }) {
            if key.name != name {
                name = key.name
                lines.append("# TYPE \(name) \(cell.kind.rawValue)")
            }
            lines.append(contentsOf: cell.samples(name: key.name, labels: key.labels))
        }
        return lines.map { $0 + "\n" }.joined()
    }

    package func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        cell(.counter, label, dimensions)
    }
    package func makeFloatingPointCounter(label: String, dimensions: [(String, String)]) -> any FloatingPointCounterHandler {
        cell(.counter, label, dimensions)
    }
    package func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        cell(.gauge, label, dimensions)
    }
    package func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        cell(aggregate ? .summary : .gauge, label, dimensions)
    }
    package func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        cell(.summary, label, dimensions)
    }
    package func destroyCounter(_ handler: any CounterHandler) { forget(handler) }
    package func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) { forget(handler) }
    package func destroyMeter(_ handler: any MeterHandler) { forget(handler) }
    package func destroyRecorder(_ handler: any RecorderHandler) { forget(handler) }
    package func destroyTimer(_ handler: any TimerHandler) { forget(handler) }

    /// The cell of a name and its labels. The first caller determines its kind.
    private func cell(_ kind: Cell.Kind, _ label: String, _ dimensions: [(String, String)]) -> Cell {
        let labels = dimensions.sorted { $0.0 < $1.0 }.map { "\(Self.name($0.0))=\"\(Self.escape($0.1))\"" }.joined(separator: ",")
        let key = Key(name: Self.name(label), labels: labels)
        return cells.withLock { cells in
            if let cell = cells[key] { return cell }
            let cell = Cell(kind: kind)
            cells[key] = cell
            return cell
        }
    }

    private func forget(_ handler: AnyObject) {
        cells.withLock { cells in
            cells = cells.filter { $0.value !== handler }
        }
    }

    private static func name(_ label: String) -> String {
        let name = String(label.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
        return name.first?.isNumber ?? true ? "_" + name : name
    }

    private static func escape(_ value: String) -> String {
        value.reduce(into: "") { text, character in
            switch character {
            case "\\": text += "\\\\"
            case "\"": text += "\\\""
            case "\n": text += "\\n"
            default: text.append(character)
            }
        }
    }
}

/// The value of a counter or gauge, or the sum and count of a timer or recorder.
final class Cell: CounterHandler, FloatingPointCounterHandler, MeterHandler, RecorderHandler, TimerHandler {
    enum Kind: String {
        case counter, gauge, summary
    }

    let kind: Kind
    /// The bits of a `Double`. All accounts share the cell, so it has no lock.
    private let value = Atomic<UInt64>(0)
    private let count = Atomic(0)

    init(kind: Kind) { self.kind = kind }

    func increment(by amount: Int64) { add(Double(amount)) }
    func increment(by amount: Double) { add(amount) }
    func decrement(by amount: Double) { add(-amount) }
    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { self.value.store(value.bitPattern, ordering: .relaxed) }
    func reset() {
        set(0.0)
        count.store(0, ordering: .relaxed)
    }
    func record(_ value: Int64) { record(Double(value)) }
    func record(_ value: Double) {
        switch kind {
        case .summary:
            add(value)
            count.wrappingAdd(1, ordering: .relaxed)
        case .counter, .gauge: set(value)
        }
    }

    private func add(_ amount: Double) {
        var old = value.load(ordering: .relaxed)
        while true {
            let new = (Double(bitPattern: old) + amount).bitPattern
            let (isExchanged, original) = value.compareExchange(expected: old, desired: new, ordering: .relaxed)
            if isExchanged { return }
            old = original
        }
    }

    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }

    func samples(name: String, labels: String) -> [String] {
        let (value, count) = (Double(bitPattern: value.load(ordering: .relaxed)), count.load(ordering: .relaxed))
        let suffix = labels.isEmpty ? "" : "{\(labels)}"
        let number = value == value.rounded() && abs(value) < 1e15 ? String(Int64(value)) : String(value)
        return switch kind {
        case .counter, .gauge: ["\(name)\(suffix) \(number)"]
        case .summary: ["\(name)_sum\(suffix) \(number)", "\(name)_count\(suffix) \(count)"]
        }
    }
}
