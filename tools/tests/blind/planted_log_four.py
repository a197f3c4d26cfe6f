"""A log of LLM requests in eight languages, with eight planted causes that break shared prefixes.
entries(requests, seed, without) returns the request bodies; a cause named in `without` is fixed."""
import json
from datetime import datetime, timedelta
from random import Random

CAUSES = {"uhr": "clock", "kennung": "random id", "betrag": "number", "reihenfolge": "order", "werkzeuge": "tools reordered",
          "fenster": "history truncated", "kunde": "differs by user", "saat": "clock"}
PLACES = {
    "uhr": "German support chat (gpt-4.1): weekday, date and minute in the 2nd paragraph of the system prompt",
    "kennung": "Korean shop chat (Qwen3-32B): a trace number (hex) in the 2nd paragraph of the system prompt, new in each request",
    "betrag": "Portuguese batch jobs (gpt-4.1-mini): the cost of the batch so far (R$ 1.234,56) in the 2nd paragraph of the system prompt",
    "reihenfolge": "Spanish RAG (mistral-large): the retrieved passages in the system prompt, in the order of noisy scores",
    "werkzeuge": "Japanese agent (Qwen3-235B): the 7 tools come shuffled in about 45 % of the requests, else sorted by name",
    "fenster": "Russian chat (claude): only the last 9 messages of the history are sent",
    "kunde": "Russian chat (claude): the customer's card in the 2nd paragraph of the system prompt, 45 customers (same prompts as fenster)",
    "saat": "Arabic travel chat (gpt-4o): weekday, date and minute, in Arabic digits, in the last paragraph of the system prompt",
}
AR = str.maketrans("0123456789,.", "٠١٢٣٤٥٦٧٨٩٬٫")
DAYS = {
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag", "es": "lunes martes miércoles jueves viernes sábado domingo",
    "pt": "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo", "ja": "月 火 水 木 金 土 日",
    "ru": "понедельник вторник среда четверг пятница суббота воскресенье", "ko": "월요일 화요일 수요일 목요일 금요일 토요일 일요일",
    "ar": "الإثنين الثلاثاء الأربعاء الخميس الجمعة السبت الأحد", "tr": "Pazartesi Salı Çarşamba Perşembe Cuma Cumartesi Pazar"}
MONTHS = {
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "ru": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "ar": "يناير فبراير مارس أبريل مايو يونيو يوليو أغسطس سبتمبر أكتوبر نوفمبر ديسمبر",
    "tr": "Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık"}


def date(lang, t, clock=False):
    """A date, or a date and a time, as it is written in this language."""
    w = DAYS[lang].split()[t.weekday()]
    m = MONTHS[lang].split()[t.month - 1] if lang in MONTHS else t.month
    d, y, h, mi = t.day, t.year, t.hour, t.minute
    if lang == "ar":
        half = "صباحًا" if h < 12 else "مساءً"
        s = f"{w} {d} {m} {y}" + (f"، الساعة {(h - 1) % 12 + 1}:{mi:02} {half}" if clock else "")
        return s.translate(AR)
    if lang == "ko":
        return f"{y}년 {m}월 {d}일 {w}" + (f" {'오전' if h < 12 else '오후'} {(h - 1) % 12 + 1}시 {mi}분" if clock else "")
    return {"de": f"{w}, {d}. {m} {y}", "es": f"{w}, {d} de {m} de {y}", "pt": f"{w}, {d} de {m} de {y}", "ja": f"{y}年{m}月{d}日({w})",
            "ru": f"{w}, {d} {m} {y} г.", "tr": f"{d} {m} {y} {w}"}[lang] + ({
                "de": f", {h:02}:{mi:02} Uhr", "es": f", {h}:{mi:02} horas", "pt": f", {h}h{mi:02}", "ja": f"{h}時{mi:02}分",
                "ru": f", {h:02}:{mi:02}", "tr": f" {h:02}.{mi:02}"}[lang] if clock else "")


def money(lang, x):
    s = f"{x:,.0f}" if lang in ("ja", "ko") else f"{x:,.2f}"
    if lang in ("de", "es", "pt", "tr"):
        s = s.translate(str.maketrans(",.", ".,"))
    s = s.replace(",", "\u00a0").replace(".", ",") if lang == "ru" else s.translate(AR) if lang == "ar" else s
    return {"de": f"{s} €", "es": f"{s} €", "pt": f"R$ {s}", "ja": f"{s}円", "ru": f"{s} ₽", "ko": f"{s}원", "ar": f"{s} ريالًا", "tr": f"{s} TL"}[lang]


T = {}  # the texts of the applications: names, products, places, system paragraphs, details of products, questions, answers
T["de"] = dict(
    n="Frau Hildegard Brömmelmeier|Herr Matthias Grünwald|Frau Ayşe Yıldırım|Herr Jörg Pfeiffer|Frau Katharina Süß|Herr Thomas Oberländer|Frau Britta Schönfeld|Herr Detlef Krüger",
    p="Sonnenstrom Klassik|Grünwärme Plus|Hausakku Edelweiß|Wallbox Nordlicht|Stromtarif Feierabend|Wärmepumpe Rauhreif|Zähler Kuckuck|Balkonanlage Maiglöckchen|Gasvertrag Winterfest|Ladekarte Fernweh",
    c="Göttingen|Nürnberg|Tübingen|Bad Münstereifel|Saarbrücken|Lüneburg|Görlitz|Düsseldorf|Kaufbeuren|Flensburg",
    s=["Du bist die freundliche Kundenberatung der Stadtwerke Lindenau, eines Versorgers für Strom, Wärme und Elektromobilität. Du antwortest immer auf Deutsch, siezt die Kundschaft und bleibst auch bei verärgerten Nachrichten ruhig und sachlich.",
       "Es ist gerade {clock}. Unsere Telefonzentrale ist werktags von 8 bis 18 Uhr besetzt; außerhalb dieser Zeiten bietest du einen Rückruf am nächsten Werktag an.",
       "Bevor du über Verträge, Abschläge oder Rechnungen sprichst, bittest du um die Kundennummer und die Postleitzahl der Lieferadresse. Stimmen die Angaben nicht überein, gibst du keinerlei persönliche Auskünfte und verweist auf das Kundenbüro am Rathausplatz.",
       "Bei Störungen fragst du zuerst, ob Gefahr für Menschen besteht. Bei Gasgeruch forderst du sofort dazu auf, Fenster zu öffnen, keine Schalter zu betätigen, das Gebäude zu verlassen und den Notdienst zu rufen. Erst danach nimmst du Straße, Hausnummer und Stockwerk auf.",
       "Kündigungen nimmst du entgegen, ohne zu drängen. Die Frist beträgt einen Monat zum Ende der Laufzeit; bei einem Umzug gilt ein Sonderkündigungsrecht von sechs Wochen. Gutschriften über 50,00 € genehmigt nur die Teamleitung.",
       "Rechne Verbräuche stets nachvollziehbar vor: Arbeitspreis mal Verbrauch, dazu der Grundpreis, geteilt durch zwölf Monate. Beträge schreibst du mit Komma und zwei Nachkommastellen. Versprich niemals eine Ersparnis, die du nicht aus dieser Übersicht belegen kannst:"],
    k="läuft zwölf Monate und enthält eine Preisgarantie bis zum Jahresende|wird von unserem Meisterbetrieb eingebaut, die Anfahrt ist inbegriffen|ist für Haushalte mit mehr als drei Personen gedacht|kann nur bestellt werden, wenn ein digitaler Zähler vorhanden ist|wird vom Land mit einem Zuschuss gefördert, den wir auf Wunsch beantragen|hat eine Lieferzeit von sechs bis acht Wochen",
    q="Guten Tag, ich habe eine Frage zu {p}.|Seit {d} bekomme ich zu hohe Abschläge von {m}.|Mein Nachbar {n} zahlt deutlich weniger als ich.|Wir ziehen demnächst nach {c} um.|Können Sie mir das bitte schriftlich bestätigen?|Der Techniker ist am vereinbarten Termin, {d}, nicht erschienen.|Warum steht auf der Rechnung ein Betrag von {m}?|Lohnt sich {p} überhaupt für eine Mietwohnung?|In unserer Straße in {c} ist schon wieder der Strom ausgefallen.|Ich finde den Zählerstand auf dem neuen Gerät nicht.|Darf ich die Ratenzahlung über {m} noch einmal verschieben?|Wann kommt denn nun die Lieferung für {p}?",
    a="Vielen Dank für Ihre Nachricht, ich sehe mir das sofort an.|Der Abschlag setzt sich aus dem Grundpreis und dem geschätzten Verbrauch zusammen und beträgt derzeit {m}.|Für {p} gilt die Preisgarantie, die Sie bei Vertragsabschluss erhalten haben.|Unser Kundenbüro in {c} hilft Ihnen gerne auch persönlich weiter.|Ich habe eine Notiz für {n} aus der Fachabteilung hinterlegt, die Sie bis {d} zurückruft.|Bitte lesen Sie den Zähler noch einmal ab und nennen Sie mir alle Ziffern vor dem Komma.|Eine Gutschrift über {m} wird mit der nächsten Rechnung verrechnet.|Bei einem Umzug nach {c} nehmen Sie Ihren Vertrag einfach mit.|Das tut mir leid, so sollte es natürlich nicht laufen.|Die Montage von {p} dauert ungefähr einen halben Tag, und Sie müssen dabei nicht durchgehend anwesend sein.|Gibt es sonst noch etwas, das ich für Sie klären darf?")
T["ja"] = dict(
    n="佐藤健一|鈴木美咲|高橋陽子|田中大輔|伊藤さくら|渡辺翔太|山本直美|中村悠斗", p="桜印の炊飯器|電動自転車「はやて」|加湿器「しずく」|南部鉄瓶|掃除機「つむじ」|卓上照明「ほたる」|浄水器「せせらぎ」|折り畳み椅子「こもれび」",
    c="名古屋|札幌|福岡|仙台|金沢|広島|川崎|松山",
    s=["あなたは家電と生活用品を扱う通信販売会社「みなと商店」の業務担当者を助ける助手です。受注、在庫、配送、返品に関する依頼を受け、必要に応じて道具を呼び出し、確かめた事実だけを日本語で丁寧に報告してください。",
       "道具を呼び出す前に、依頼の目的と足りない情報を確認してください。注文番号が分からないときは、お客様の氏名と配送先の都道府県から検索します。同じ道具を同じ引数で二度続けて呼び出してはいけません。",
       "在庫を動かすとき、返金するとき、配送日を変えるときは、実行する前に必ず内容を要約し、担当者の承認を得てください。金額が三万円を超える返金は、課長の承認番号がなければ進められません。",
       "結果を伝えるときは、最初に結論を一文で述べ、次に根拠となった数値と日付、最後に次の一手を示してください。道具が失敗した場合は、失敗したことを隠さず、代わりの方法を一つだけ提案してください。",
       "倉庫ごとの出荷の締め切りと取り扱い商品は次のとおりです。締め切りを過ぎた注文は翌営業日の扱いになります。"],
    k="午前十一時までの注文は当日に出荷し、離島へは三日ほど余計にかかります|割れ物のため二重に梱包し、代金引換は受け付けていません|修理部品を五年間保管しており、保証書の写しがあれば無料で交換します|季節商品のため、補充は月に二度だけ行います|組み立て済みで出荷するので、大型便の扱いになります",
    q="{n}様のご注文の状況を調べてください。|{p}の在庫が{c}の倉庫に残っているか確認をお願いします。|{d}に届く予定の荷物がまだ着いていないそうです。|返金額が{m}で正しいか見てもらえますか。|配送先を{c}に変更したいとの連絡がありました。|{p}の箱が破れていたので交換を希望されています。|担当の{n}さんに引き継ぐ前に、要点をまとめてください。|先週の売り上げと比べてどうなっていますか。",
    a="確認しました。{c}の倉庫に{p}の在庫があり、本日中に出荷できます。|{n}様のご注文は{d}に発送済みで、配送会社の営業所に到着しています。|返金の対象は{m}で、手数料は差し引かれません。|{p}は次の入荷が{d}の予定なので、それまでは予約として承ります。|配送先を変更するには、担当者の承認が必要です。進めてもよろしいでしょうか。|記録によると、前回の問い合わせには{n}が対応しています。|以上の内容で問題がなければ、このまま手続きを進めます。")
T["es"] = dict(
    n="Doña Remedios Carrasco|Íñigo Zubizarreta|Begoña Ibáñez|Joaquín Peñalver|Lucía Núñez|Ramón Echevarría|Macarena Güell|Andrés Muñoz", p="seguro de hogar Abrigo|póliza de viaje Golondrina|seguro de salud Manantial|seguro de coche Alameda|plan de jubilación Olivar|seguro de mascotas Lebrel",
    c="Logroño|Cádiz|A Coruña|Peñíscola|Mérida|Castellón|Ávila|Málaga",
    s=["Eres el asistente documental de Mutua Guadalquivir, una aseguradora con delegaciones en toda España. Respondes a los agentes de las oficinas únicamente con lo que dicen los pasajes que aparecen más abajo, sacados del archivo de condiciones generales y de circulares internas.",
       "Si los pasajes no contienen la respuesta, dilo con claridad y propón a quién consultar; no completes los huecos con suposiciones ni con conocimientos generales. Cita siempre el título del pasaje entre comillas latinas y, cuando haya importes, cópialos tal como figuran.",
       "Cuando dos pasajes se contradigan, prevalece la circular más reciente, y debes advertir de la contradicción. No des consejos jurídicos ni fiscales: remite esos casos a la asesoría central de Sevilla, que atiende de nueve a dos.",
       "Escribe en un español llano, en párrafos breves, tratando de usted a la persona que pregunta."],
    k="La franquicia general es de {m} por siniestro, salvo en los daños por agua, en los que se aplica el doble cuando la vivienda tiene más de treinta años.|El plazo para comunicar el siniestro es de siete días naturales desde que se conoce, y la oficina de {c} puede ampliarlo si hubo hospitalización.|Quedan excluidos los daños causados por obras sin licencia, por abandono o por animales que no figuren en la póliza.|La prima anual del {p} no podrá subir más de {m} sin un aviso enviado con dos meses de antelación.|El perito dispone de diez días hábiles para emitir su informe; transcurrido ese plazo se abonará un anticipo de {m}.|La asistencia en carretera incluye remolque hasta el taller más próximo y una noche de hotel en {c} o en otra localidad equivalente.|Los hijos menores de veinticinco años que convivan con el titular están cubiertos sin recargo alguno.|Esta circular entró en vigor el {d} y sustituye a todas las anteriores sobre la misma materia.|Las reclamaciones se dirigen a {n}, responsable del servicio de atención al asegurado.|El reembolso de medicamentos exige receta original y factura con desglose de impuestos.",
    q="¿Qué franquicia se aplica en el {p}?|Una clienta de {c} quiere saber si le cubrimos una fuga de agua.|El siniestro ocurrió el {d} y todavía no lo habían comunicado.|¿Hay algún límite distinto de {m} para los anticipos?|Me lo ha preguntado {n} esta misma mañana.|¿Y si el taller está en {c}?|¿Puede indicarme en qué pasaje lo dice?|No me queda claro qué ocurre con los hijos del titular.|¿Cuánto tarda el perito en estos casos?|Necesito contestar por carta antes del {d}.",
    a="Según el pasaje citado, la franquicia asciende a {m} por siniestro.|La circular vigente establece un plazo de siete días naturales, que la oficina de {c} puede ampliar por causa justificada.|Los pasajes disponibles no aclaran ese punto; le sugiero consultar con {n}.|En el {p} esa cobertura figura entre las garantías opcionales, por lo que conviene comprobar la póliza concreta.|Conviene advertir que la circular del {d} modifica lo anterior.|El perito dispone de diez días hábiles y, pasado ese tiempo, corresponde un anticipo.|Puede trasladar esta respuesta a la persona asegurada con las mismas palabras.|Si hubo hospitalización, adjunte el justificante al expediente.")
T["pt"] = dict(
    n="Conceição Araújo|João Guimarães|Tânia Brandão|Sebastião Falcão|Inês Magalhães|Luís Antônio Simões|Márcia Conceição|Estêvão Galvão", p="cafeteira Manhã Boa|rede Descanso|ventilador Brisa do Norte|panela Tacho de Ouro|bicicleta Ladeira|colchão Nuvem Mansa|furadeira João-de-Barro|mochila Trilha",
    c="São Luís|Florianópolis|Ribeirão Preto|Belém|Maceió|Uberlândia|Goiânia|Niterói",
    s=["Você classifica, em lotes noturnos, as avaliações e reclamações que chegam à rede de lojas Casa Jatobá. Para cada texto, devolva uma única linha com a categoria, o sentimento, o grau de urgência de um a cinco e um resumo de no máximo vinte palavras, tudo em português.",
       "O custo acumulado deste lote até agora é de {number}. Seja conciso para que o orçamento mensal, aprovado pela diretoria, não seja ultrapassado.",
       "As categorias possíveis são: entrega, qualidade do produto, atendimento na loja, atendimento por telefone, cobrança, troca e devolução, montagem, garantia e elogio. Se mais de uma couber, escolha a que exige a ação mais rápida e mencione a outra no resumo.",
       "A urgência é cinco quando há risco à saúde, choque elétrico, incêndio ou ameaça de processo; quatro quando o cliente ficou sem um bem essencial; três quando o prazo prometido venceu; dois para incômodos; e um para elogios e sugestões. Não aumente a urgência por causa de letras maiúsculas ou de palavrões.",
       "Nunca copie nomes, telefones, endereços ou números de documentos para o resumo: escreva apenas o cliente, a loja ou o entregador. Textos vazios, repetidos ou em outra língua recebem a categoria elogio somente se forem de fato positivos; do contrário, responda indefinido.",
       "Seguem exemplos já conferidos pela equipe de qualidade, que devem servir de referência para os casos duvidosos:"],
    k="veio com defeito e a assistência demorou três semanas → garantia; negativo; três|foi entregue antes do prazo e o rapaz ainda ajudou a subir a escada → elogio; positivo; um|soltou faísca na primeira vez que liguei na tomada → qualidade do produto; negativo; cinco|foi cobrada duas vezes na mesma fatura → cobrança; negativo; três|chegou sem os parafusos e ninguém atende → montagem; negativo; dois|ficou linda, mas a vendedora foi grosseira → atendimento na loja; misto; dois",
    q="Comprei a {p} na loja de {c} e só tive dor de cabeça.|Paguei {m} e até hoje não recebi a nota fiscal.|A entrega estava marcada para {d} e ninguém apareceu.|Quem me atendeu foi {n}, com muita paciência e educação.|O produto é bom, porém a caixa chegou toda amassada.|Já liguei quatro vezes e sempre me pedem para aguardar na linha.|Quero trocar por outro modelo, mas dizem que o prazo acabou em {d}.|Minha mãe adorou o presente, parabéns a toda a equipe!|Descontaram {m} do meu cartão sem nenhuma explicação.|Moro longe de {c} e o frete saiu mais caro que a {p}.|Depois de uma semana de uso, começou a fazer um barulho estranho.", a="")
T["ru"] = dict(
    n="Анна Сергеевна Воронцова|Пётр Ильич Щербаков|Людмила Фёдоровна Жукова|Алексей Юрьевич Ермолаев|Ольга Эдуардовна Цветкова|Дмитрий Львович Подъячев|Зинаида Марковна Шульгина|Игорь Олегович Быстров|Елена Павловна Рощина", p="тариф «Домашний очаг»|роутер «Снегирь»|пакет «Вечерний киносеанс»|тариф «Белые ночи»|приставка «Жар-птица»|услуга «Надёжный сторож»|тариф «Дачник»|телефон «Незабудка»",
    c="Екатеринбург|Вологда|Нижний Новгород|Ярославль|Пермь|Калининград|Великий Устюг|Чебоксары",
    s=["Вы — консультант оператора связи «Северный ветер». Вы помогаете абонентам разобраться с тарифами, оплатой, домашним интернетом и телевидением. Отвечайте только по-русски, вежливо, на «вы», короткими абзацами и без канцелярита.",
       "{user}",
       "Перед тем как менять тариф, подключать или отключать услугу, перечислите стоимость, дату начала действия и последствия для текущих скидок, а затем дождитесь явного согласия. Молчание или шутка согласием не считаются. Если абонент передумал в течение суток, изменения отменяются без платы.",
       "При жалобе на скорость сначала выясните, идёт ли речь о проводном подключении или о беспроводном, сколько устройств работает одновременно и где стоит роутер. Предложите перезагрузить оборудование и измерить скорость по проводу. Если скорость ниже обещанной более чем на треть, оформите выезд мастера.",
       "Выезд мастера бесплатен, если неисправность возникла по вине оператора. Если повреждён кабель в квартире или оборудование куплено не у нас, выезд стоит 450,00 ₽. Об этом нужно предупредить заранее. Время визита согласуйте с точностью до двух часов и попросите, чтобы дома был взрослый.",
       "Спорные списания проверяйте по истории начислений. Вернуть деньги можно за последние три месяца, если услуга была подключена без согласия. Возврат более 2 000,00 ₽ оформляет старший смены. Никогда не обещайте компенсацию, пока списание не проверено.",
       "Не просите назвать пароль, код из сообщения или полный номер банковской карты. Если абонент прислал их сам, посоветуйте немедленно сменить пароль и не повторяйте присланное в ответе. При подозрении на мошенничество заблокируйте платные номера и сообщите о случае в службу безопасности.",
       "Действующие тарифы, услуги и оборудование по городам присутствия:"],
    k="подключение бесплатно при оплате за полгода вперёд, затем действует обычная цена|в стоимость входит аренда оборудования и круглосуточная поддержка|скидка для пенсионеров и многодетных семей составляет пятую часть платы|приостановить обслуживание можно на срок до трёх месяцев в году|доступно только в домах, где проложено оптическое волокно|при переезде внутри города перенос выполняется в течение пяти рабочих дней",
    q="Здравствуйте, у меня с утра не работает интернет.|Почему {d} с меня списали {m}?|Хочу перейти на {p}, это возможно?|Мастер обещал прийти, но так и не появился.|Мы переезжаем в {c}, что делать с договором?|А если я откажусь от услуги {p}, скидка сохранится?|Скорость вечером падает так, что невозможно смотреть кино.|Роутер я уже перезагружала три раза, ничего не изменилось.|Сколько будет стоить подключение для моей мамы в городе {c}?|Хорошо, я согласна, подключайте.|Нет, подождите, мне нужно посоветоваться с мужем.|Вчера со мной разговаривал ваш сотрудник, {n}, и обещал вернуть {m}.",
    a="Понимаю ваше беспокойство, сейчас всё проверю.|По истории начислений видно, что {d} была списана абонентская плата в размере {m}.|{p} доступен по вашему адресу, подключение займёт не больше суток.|Пожалуйста, отключите питание роутера на полминуты, а затем включите его снова и дождитесь зелёного огонька.|Могу предложить визит мастера: ближайшее свободное время — {d}, с десяти до двенадцати.|При переезде в {c} договор сохраняется, меняется только адрес обслуживания.|Обращаю внимание, что при отключении услуги скидка перестанет действовать со следующего месяца.|Заявку принял старший смены, {n}, он свяжется с вами сегодня.|К оплате получится {m} в месяц, включая аренду оборудования.|Подскажите, пожалуйста, сколько устройств сейчас подключено к сети.|Если вы согласны, напишите, пожалуйста, «подтверждаю».")
T["ko"] = dict(
    n="김민준|이서연|박지훈|최은영|정하늘|한소라|오세진|윤다은", p="달빛 이불|솔향 비누|한지 조명|청자 찻잔|무쇠 솥뚜껑|누비 가방|참숯 베개|대나무 돗자리|옻칠 수저|보리차 주전자", c="부산|전주|강릉|대구|여수|춘천|안동|제주",
    s=["당신은 생활 소품을 파는 온라인 가게 ‘두레마을’의 상담원입니다. 손님이 편하게 느끼도록 존댓말로 짧고 따뜻하게 답하고, 모르는 것은 모른다고 말한 뒤 확인해서 알려 드리겠다고 하세요.",
       "요청 추적 번호는 {id}입니다. 장애를 신고할 때만 이 번호를 내부 담당자에게 전달하고, 손님에게는 말하지 마세요.",
       "교환과 반품은 물건을 받은 날부터 이레 안에 받을 수 있습니다. 단순 변심이면 왕복 배송비 6,000원을 손님이 내고, 물건에 흠이 있으면 가게가 모두 부담합니다. 포장을 뜯은 침구와 식기는 흠이 있을 때에만 교환됩니다.",
       "배송은 보통 이틀에서 사흘이 걸리고 섬 지역은 닷새까지 걸립니다. 늦어진 주문에는 먼저 사과하고, 택배 회사의 현재 위치를 확인한 뒤 예상 도착일을 알려 주세요. 열흘이 지나도 도착하지 않으면 다시 보내거나 환불합니다.",
       "할인권과 적립금은 함께 쓸 수 없습니다. 50,000원 넘게 사면 배송비를 받지 않으며, 선물 포장은 2,500원입니다. 대량 주문은 서른 개부터 따로 견적을 내야 하므로 담당자 한소라에게 연결하세요.",
       "손님의 주소, 전화번호, 결제 정보를 답변에 되풀이해 적지 마세요. 욕설을 들어도 같은 말투를 지키고, 세 번 이상 이어지면 상담을 마치겠다고 정중히 알리세요. 판매 중인 물건은 다음과 같습니다."],
    k="햇볕에 말린 뒤 그늘에 보관하면 오래 쓸 수 있습니다|장인이 손으로 만들어 무늬가 조금씩 다릅니다|주문을 받은 뒤에 만들기 때문에 일주일쯤 걸립니다|물세탁을 하지 말고 마른 천으로 닦아 주세요|어린이가 있는 집에서 특히 많이 찾습니다",
    q="안녕하세요, {p} 주문한 사람인데요 아직 안 왔어요.|{d}까지 {c}에서 받을 수 있을까요?|결제가 {m}으로 나왔는데 할인이 안 된 것 같아요.|{p}에 작은 금이 가 있어서 교환하고 싶어요.|선물로 보내려는데 포장도 되나요?|지난번에 상담해 주신 {n} 님이 된다고 하셨어요.|색이 사진과 너무 달라서 실망했어요.|적립금은 언제까지 써야 하나요?|그럼 환불은 며칠이나 걸려요?|친구 집이 {c}인데 그쪽으로 바꿔 주세요.|네, 그렇게 해 주세요.",
    a="기다리게 해 드려 정말 죄송합니다. 바로 확인해 보겠습니다.|{p}은 {c} 물류 창고에서 출발했고 {d}에 도착할 예정입니다.|결제하신 금액은 {m}이며, 할인권은 다음 주문부터 쓰실 수 있습니다.|흠이 있는 물건은 저희가 배송비를 모두 부담하고 새것으로 보내 드립니다.|환불은 물건이 도착한 날부터 사흘 안에 처리됩니다.|담당자 {n}에게 전달했으니 오늘 안으로 연락드릴 거예요.|선물 포장은 2,500원이고 짧은 편지도 넣어 드립니다.|사진을 한 장 보내 주시면 더 빨리 도와 드릴 수 있습니다.|더 궁금한 점이 있으시면 언제든 말씀해 주세요.")
T["ar"] = dict(
    n="فاطمة الزهراء العلوي|خالد بن سعيد الحربي|نورة القحطاني|يوسف المنصوري|ليلى حداد|عبد الرحمن الشامي|سلمى بنجلون|طارق الخطيب", p="باقة نسيم البحر|رحلة القوافل|جولة الأندلس|باقة ليالي الصحراء|رحلة الواحات|باقة شهر العسل|جولة المدن العتيقة",
    c="مراكش|القاهرة|مسقط|العقبة|تونس|الدوحة|صلالة|بيروت",
    s=["أنت مستشار السفر في وكالة «الهدهد» للسياحة. تساعد المسافرين على اختيار الرحلات وحجز الفنادق وتعديل المواعيد، وتجيب دائمًا بالعربية الفصحى الواضحة، بأسلوب ودود ومختصر يخلو من المبالغة.",
       "اسأل أولًا عن عدد المسافرين وأعمار الأطفال ومدينة الانطلاق والميزانية التقريبية، ولا تقترح أكثر من ثلاثة خيارات في الرد الواحد. اذكر مع كل خيار ما يشمله السعر وما لا يشمله، وخصوصًا التأشيرة والتأمين والوجبات.",
       "يمكن إلغاء الحجز مجانًا قبل موعد السفر بخمسة عشر يومًا، وبعد ذلك يُخصم ربع المبلغ، ولا يُسترد شيء في آخر ثلاثة أيام إلا لعذر طبي موثق. تعديل الأسماء ممكن مرة واحدة فقط، وتعديل التاريخ يخضع لفرق السعر.",
       "لا تطلب صور جوازات السفر داخل المحادثة، بل أرسل المسافر إلى صفحة الحجز الآمنة. وإذا سأل عن الأوضاع الصحية أو الأمنية فأحِله إلى الموقع الرسمي لوزارة الخارجية في بلده.",
       "فيما يلي أسعار الموسم الحالي للشخص الواحد في غرفة مزدوجة:",
       "التاريخ والوقت الآن: {clock}. لا تعرض رحلة موعدها قد مضى."],
    k="يشمل الإفطار والتنقل من المطار وإليه|لا يشمل رسوم التأشيرة ولا المشروبات|تنطلق الرحلة كل خميس من المحطة المركزية|يحصل الأطفال دون السادسة على إقامة مجانية|يرافق المجموعة مرشد يتحدث العربية طوال الجولة|يقع الفندق على بعد خطوات من السوق القديم",
    q="السلام عليكم، أفكر في السفر إلى {c} مع عائلتي.|كم تكلفة {p} لأربعة أشخاص؟|هل يوجد موعد متاح حوالي {d}؟|دفعت {m} ولم تصلني رسالة التأكيد حتى الآن.|نصحتني صديقتي {n} بهذه الوكالة.|هل يشمل السعر تذاكر الطيران؟|أريد تأجيل الحجز أسبوعًا واحدًا إن أمكن.|والدتي تستعمل كرسيًا متحركًا، فهل الفندق مناسب لها؟|ما الفرق بين {p} والعرض السابق؟|حسنًا، سأستشير زوجي ثم أعود إليكم.|هل الجو بارد في {c} في هذا الوقت من السنة؟",
    a="أهلًا وسهلًا بكم، يسعدني أن أساعدكم في التخطيط لهذه الرحلة.|سعر {p} للشخص الواحد هو {m}، ويشمل الإفطار والتنقل من المطار.|أقرب موعد متاح هو {d}، وقد بقيت أماكن قليلة.|في {c} فندق عائلي هادئ قريب من البحر، وفيه مصعد وغرف واسعة.|يمكنكم تعديل التاريخ مرة واحدة مع دفع فرق السعر إن وجد.|سأطلب من زميلتي {n} أن تتابع رسالة التأكيد وتتصل بكم اليوم.|لا يشمل السعر رسوم التأشيرة، وتبلغ عادة نحو {m}.|الطقس معتدل نهارًا، لكن يُستحسن إحضار معطف خفيف للمساء.|هل تفضلون غرفة واحدة كبيرة أم غرفتين متجاورتين؟")
T["tr"] = dict(
    n="Gülşen Çağlayan|Oğuzhan Şimşek|Müge Türkoğlu|İbrahim Yağcı|Şule Akgün|Çetin Özdemir|Nazlı Işık|Ümit Güneş", p="Yakamoz kahve makinesi|Çınar çalışma masası|Gelincik elektrikli süpürge|Pınar su arıtma cihazı|Kırlangıç bebek arabası|Zeytindalı tencere takımı", c="Eskişehir|Şanlıurfa|Muğla|Çanakkale|Iğdır|Kütahya|İzmir|Diyarbakır",
    s=["Sen, Anadolu'nun dört bir yanında mağazaları olan Karanfil Ev Gereçleri'nin teknik destek danışmanısın. Müşterilere her zaman Türkçe, saygılı ve sade bir dille yanıt verirsin; bilmediğin bir konuda tahmin yürütmez, yetkili servise yönlendirirsin.",
       "Arıza bildirimlerinde önce ürünün adını, satın alma tarihini ve garanti belgesinin olup olmadığını sor. Elektrikle ilgili bir tehlike varsa müşteriden fişi çekmesini ve cihaza dokunmamasını iste. Basit çözümleri sırayla, her seferinde yalnızca bir adım olacak biçimde anlat.",
       "Garanti süresi iki yıldır; düşürme, yanlış voltaj ve yetkisiz onarım garanti dışıdır. Garanti dışındaki onarımlar için ücret önceden bildirilir ve müşteri onaylamadan işlem yapılmaz. Yedek parçalar on iş günü içinde gönderilir.",
       "Ürün bilgileri ve güncel fiyatlar aşağıdadır. Fiyatlara katma değer vergisi dâhildir:"],
    k="kireç çözme işlemi üç ayda bir yapılmalıdır|kurulumu yetkili servis ücretsiz yapar|motoru için ayrıca beş yıl ek güvence verilir|yalnızca nemli bezle silinmelidir|yedek filtreleri mağazalarımızda bulunur",
    q="Merhaba, {p} birden çalışmaz oldu.|Ürünü {d} günü {c} mağazasından almıştım.|Servis benden {m} istedi, bu doğru mu?|Fişi çektim ama ışık hâlâ yanıp sönüyor.|Garanti belgesini bulamıyorum, ne yapmalıyım?|Geçen sefer bana {n} yardımcı olmuştu.|Yedek parça ne zaman {c} şubesine gelir?|Dediğinizi yaptım, şimdi de garip bir ses çıkarıyor.|Teşekkürler, bir de iade koşullarını öğrenebilir miyim?",
    a="Yaşadığınız aksaklık için üzgünüm, birlikte çözelim.|{p} için önce su haznesini çıkarıp tekrar yerine oturtmanızı rica ederim.|Onarım bedeli {m} olarak görünüyor; onayınız olmadan işlem yapılmaz.|{c} şubemizdeki yetkili servis sizi {d} günü arayacak.|Fatura varsa garanti belgesi olmadan da işlem yapabiliyoruz.|Kaydınızı {n} adına açtım, gelişmeleri size bildireceğiz.|Lütfen cihazı on dakika kapalı tutup yeniden deneyin.|İade süresi, ürünü teslim aldığınız günden itibaren on dört gündür.")
for _t in T.values():
    for _k in "npckqa":
        _t[_k] = [s for s in _t[_k].split("|") if s]

START = datetime(2024, 10, 28, 6, 0)


def fill(lang, rng, s):
    t = T[lang]
    for slot, make in (("n", lambda: rng.choice(t["n"])), ("p", lambda: rng.choice(t["p"])), ("c", lambda: rng.choice(t["c"])),
                       ("d", lambda: date(lang, datetime(2024, 8, 1) + timedelta(rng.randrange(120)))), ("m", lambda: money(lang, rng.randrange(900, 480000) / 100 * (20 if lang in ("ja", "ko") else 1)))):
        while "{" + slot + "}" in s:
            s = s.replace("{" + slot + "}", make(), 1)
    return s


def text(lang, rng, key, low, high):
    gap = "" if lang == "ja" else " "
    return gap.join(fill(lang, rng, s) for s in rng.sample(T[lang][key], rng.randint(low, high)))


def catalog(lang, lines):
    """The list of products in a system prompt: always the same text."""
    rng, t = Random("liste " + lang), T[lang]
    return "\n".join(f"– {t['p'][i % len(t['p'])]} ({t['c'][(i * 3 + i // len(t['p'])) % len(t['c'])]}), {money(lang, rng.randrange(1500, 250000) / 100 * (20 if lang in ('ja', 'ko') else 1))}: {t['k'][rng.randrange(len(t['k']))]}"
                     for i in range(lines))


def _tool(name, description, **properties):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": {k: {"type": v[0], "description": v[1]} for k, v in properties.items()}, "required": list(properties)}}}


TOOLS = [
    _tool("approve_refund", "返金を申請します。金額が三万円を超える場合は課長の承認番号が必要で、申請した後は取り消せません。", order=("string", "注文番号(先頭に「注」が付く八桁の番号)"), amount=("integer", "返金額(円)、消費税を含む")),
    _tool("change_delivery", "配送日または配送先を変更します。発送済みの荷物については、配送会社に転送を依頼します。", order=("string", "注文番号"), city=("string", "新しい配送先の市区町村")),
    _tool("check_stock", "指定した倉庫にある商品の在庫数と、次に入荷する予定の日を調べます。結果は五分ごとに更新されます。", product=("string", "商品名(正式な名称)"), warehouse=("string", "倉庫のある都市")),
    _tool("find_orders", "お客様の氏名と都市から注文を検索し、新しい順に最大で十件を返します。氏名は姓と名を続けて書きます。", customer=("string", "お客様の氏名"), city=("string", "配送先の都市")),
    _tool("leave_note", "次の担当者への申し送りを注文の記録に残します。お客様には見えません。", customer=("string", "お客様の氏名"), note=("string", "申し送りの内容、二百字まで")),
    _tool("sales_report", "指定した都市と商品の売り上げを週ごとに集計し、前の週と比べた増減を返します。", city=("string", "都市名"), product=("string", "商品名")),
    _tool("track_parcel", "荷物の現在地と到着予定の日時を配送会社に問い合わせます。離島の場合は船の便も確認します。", order=("string", "注文番号"))]


def call(rng):
    """A call of a tool and its result."""
    f, t = rng.choice(TOOLS)["function"], T["ja"]
    make = {"order": lambda: f"注{rng.randrange(10**7, 10**8)}", "amount": lambda: rng.randrange(800, 29000), "city": lambda: rng.choice(t["c"]), "warehouse": lambda: rng.choice(t["c"]),
            "product": lambda: rng.choice(t["p"]), "customer": lambda: rng.choice(t["n"]), "note": lambda: text("ja", rng, "a", 1, 1)}
    arguments = {k: make[k]() for k in f["parameters"]["properties"]}
    result = {"結果": rng.choice(["成功", "成功", "要確認"]), "更新": date("ja", START + timedelta(minutes=rng.randrange(12000)), True), "数量": rng.randrange(400),
              "場所": rng.choice(t["c"]), "担当": rng.choice(t["n"]), "備考": [fill("ja", rng, s) for s in rng.sample(t["k"] + t["a"], rng.randint(1, 3))]}
    key = "call_" + f"{rng.getrandbits(96):024x}"
    return [{"role": "assistant", "content": None, "tool_calls": [{"id": key, "type": "function", "function": {"name": f["name"], "arguments": json.dumps(arguments, ensure_ascii=False)}}]},
            {"role": "tool", "tool_call_id": key, "content": json.dumps(result, ensure_ascii=False)}]


# language: conversations (weight), model, fewest and most turns, lines in the catalog
APPS = {"de": (11, "gpt-4.1", 2, 14, 15), "ja": (15, "Qwen/Qwen3-235B-A22B-Instruct-2507", 3, 18, 9), "es": (14, "mistral-large-latest", 2, 12, 0), "pt": (2.4, "gpt-4.1-mini", 12, 40, 18),
        "ru": (15, "claude-sonnet-4-5", 2, 20, 32), "ko": (11, "Qwen/Qwen3-32B", 2, 14, 16), "ar": (13, "gpt-4o", 2, 16, 14), "tr": (12, "gpt-4o", 2, 12, 12)}
TOPICS = 30


def passages(topic):
    """The passages of a topic in the archive: title and text, the same for all requests about it."""
    rng = Random(f"archivo {topic}")
    return [f"«Circular {topic * 11 + i + 101}, {rng.choice(T['es']['p'])}, {rng.choice(T['es']['c'])}»\n" + text("es", rng, "k", 2, 4) for i in range(6)]


def customers(seed):
    rng = Random(f"{seed} kunde cards")
    return [f"Карточка абонента: {rng.choice(T['ru']['n'])}, договор № {rng.randrange(10**6, 10**7)}, город {rng.choice(T['ru']['c'])}. Подключено: {rng.choice(T['ru']['p'])} и {rng.choice(T['ru']['p'])}. "
            f"Баланс на начало месяца: {money('ru', rng.randrange(-40000, 300000) / 100)}. Обращаться {rng.choice(['по имени и отчеству', 'официально', 'просто и без лишних слов'])}." for _ in range(45)]


def entries(requests=5000, seed=0, without=()):
    base, done, events = Random(f"{seed} base"), 0, []
    cards = customers(seed)
    names = list(APPS)
    while done < requests:
        number = done  # a conversation's number: the requests made before it
        lang = base.choices(names, [APPS[a][0] for a in names])[0]
        low, high = APPS[lang][2:4]
        turns = min(base.randint(low, high), requests - done)
        t, times = base.random() * requests * 2.3, []
        for _ in range(turns):
            times.append(t)
            t += 0.4 if lang == "pt" else 0.3 + base.expovariate(1 / (3 if lang == "ja" else 12))
        rng, topic = Random(f"{seed} talk {number}"), base.randrange(TOPICS)
        messages, cuts = [], []
        for i in range(turns):
            if lang == "ja" and messages and messages[-1]["role"] != "assistant" and rng.random() < 0.6:
                messages += call(rng)
            else:
                if messages and lang != "pt":
                    messages.append({"role": "assistant", "content": text(lang, rng, "a", 2, 4)})
                q = text(lang, rng, "q", 2, 5) if lang == "pt" else text(lang, rng, "q", 1, 3)
                if lang == "tr":  # as it should be: the time is in the message, and stays in it
                    q = f"[{date('tr', START + timedelta(minutes=int(times[i])), True)}] {q}"
                messages.append({"role": "user", "content": q})
            cuts.append(len(messages))
        cost, cents = Random(f"{seed} betrag {number}"), 0
        cents = cost.randrange(20000, 900000)
        card = cards[Random(f"{seed} kunde {number}").randrange(len(cards))]
        for i in range(turns):
            cents += cost.randrange(3, 240)
            events.append((times[i], number, i, lang, topic, messages[cuts[i] - 1:cuts[i]] if lang == "pt" else messages[:cuts[i]], cents, card))
        done += turns
    events.sort(key=lambda e: e[:3])
    return [entry(seed, without, *e) for e in events]


def entry(seed, without, minutes, number, i, lang, topic, messages, cents, card):
    now = START + timedelta(minutes=int(minutes))
    own = lambda cause: Random(f"{seed} {cause} {number} {i}")
    system = "\n\n".join(T[lang]["s"])
    if lang == "de":
        system = system.replace("{clock}", date("de", START if "uhr" in without else now, True))
    if lang == "ar":
        head, tail = system.rsplit("\n\n", 1)
        system = head + "\n" + catalog(lang, APPS[lang][4]) + "\n\n" + tail.replace("{clock}", date("ar", START if "saat" in without else now, True))
    elif lang == "es":
        found, rng = passages(topic), own("reihenfolge")
        order = sorted(range(6), key=lambda k: -(0.9 - 0.05 * k + rng.gauss(0, 0.09)))
        order = list(range(6)) if "reihenfolge" in without else order
        system += "\n\nPasajes recuperados del archivo:\n\n" + "\n\n".join(found[k] for k in order)
    else:
        system += "\n" + catalog(lang, APPS[lang][4])
    if lang == "ko":
        h = f"{0 if 'kennung' in without else own('kennung').getrandbits(128):032x}"
        system = system.replace("{id}", "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:])))
    if lang == "pt":
        system = system.replace("{number}", money("pt", 1234.56 if "betrag" in without else cents / 100))
    if lang == "ru":
        system = system.replace("{user}", customers(0)[0] if "kunde" in without else card)
        kept = messages if "fenster" in without else messages[-9:]
        return {"model": APPS[lang][1], "max_tokens": 1024, "cache_control": {"type": "ephemeral"}, "system": system, "messages": kept}
    body = {"model": APPS[lang][1], "messages": [{"role": "system", "content": system}] + messages}
    if lang == "ja":
        tools, rng = list(TOOLS), own("werkzeuge")
        if rng.random() < 0.45 and "werkzeuge" not in without:
            rng.shuffle(tools)
        body["tools"] = tools
    body["max_completion_tokens" if lang in ("de", "ar", "tr", "pt") else "max_tokens"] = 800
    body["temperature"] = 0.0 if lang == "pt" else 0.3
    return body
