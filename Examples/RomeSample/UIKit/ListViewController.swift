// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The Device Relay project authors
//
// For Xcode: not compiled on Linux, where only its syntax is checked.

#if canImport(UIKit)
import UIKit

/// A list of texts that follows a model.
class ListViewController: UITableViewController {
    struct Row {
        var title: String
        var detail = ""
        /// For VoiceOver; `nil` for title and detail.
        var spoken: String?
        var select: (() -> Void)?
    }

    struct Part {
        var header: String?
        var rows: [Row]
    }

    /// The tasks end with the screen.
    let work = Work()
    private var parts: [Part] = []
    private var observer: Observer?

    /// The content now. It reads the models.
    func content() -> [Part] { [] }

    override func viewDidLoad() {
        super.viewDidLoad()
        tableView.rowHeight = UITableView.automaticDimension
        observer = Observer { [weak self] in self?.reload() }
    }

    override func viewDidDisappear(_ animated: Bool) {
        super.viewDidDisappear(animated)
        work.cancelAll()
    }

    func reload() {
        parts = content()
        tableView.reloadData()
    }

    override func numberOfSections(in tableView: UITableView) -> Int { parts.count }

    override func tableView(_ tableView: UITableView, numberOfRowsInSection section: Int) -> Int { parts[section].rows.count }

    override func tableView(_ tableView: UITableView, titleForHeaderInSection section: Int) -> String? { parts[section].header }

    override func tableView(_ tableView: UITableView, cellForRowAt path: IndexPath) -> UITableViewCell {
        let line = parts[path.section].rows[path.row]
        let cell = UITableViewCell()
        var text = cell.defaultContentConfiguration()
        text.text = line.title
        text.secondaryText = line.detail
        text.textProperties.numberOfLines = 0
        text.secondaryTextProperties.numberOfLines = 0
        text.textProperties.adjustsFontForContentSizeCategory = true
        text.secondaryTextProperties.adjustsFontForContentSizeCategory = true
        cell.contentConfiguration = text
        cell.accessoryType = line.select == nil ? .none : .disclosureIndicator
        cell.accessibilityLabel = line.spoken ?? [line.title, line.detail].filter { !$0.isEmpty }.joined(separator: ", ")
        cell.accessibilityTraits = line.select == nil ? .staticText : .button
        return cell
    }

    override func tableView(_ tableView: UITableView, didSelectRowAt path: IndexPath) {
        tableView.deselectRow(at: path, animated: true)
        parts[path.section].rows[path.row].select?()
    }

    /// The row of a notice; none without one.
    func rows(_ notice: Notice?) -> [Row] {
        notice.map { [Row(title: $0.title, detail: NoticeText.text($0), spoken: $0.spoken)] } ?? []
    }
}
#endif
